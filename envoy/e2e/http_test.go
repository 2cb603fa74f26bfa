//go:build realenvoy

package e2e_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"understudy/cmd/testkit"
)

// arrived is a request as the upstream got it. The upstream answers with it, as JSON.
type arrived struct {
	Method string
	// Target is the path with the query, as it was sent.
	Target string
	Host   string
	Header http.Header
	Body   []byte
}

// newUpstream serves until the test ends, and returns its address.
func newUpstream(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Upstream", "reached")
		answer, err := json.Marshal(arrived{r.Method, r.RequestURI, r.Host, r.Header, body})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		// With its length, so that no answer depends on how the network cuts it.
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		_, _ = w.Write(answer)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// answered is an answer as the client got it.
type answered struct {
	status int
	header http.Header
	body   string
}

// upstream returns the request as the upstream got it; nil if it never did.
func (a answered) upstream(t *testing.T) *arrived {
	t.Helper()
	if a.header.Get("X-Upstream") == "" {
		return nil
	}
	r := &arrived{}
	if err := json.Unmarshal([]byte(a.body), r); err != nil {
		t.Fatalf("the upstream answered %q: %v", a.body, err)
	}
	return r
}

// ask sends one request over a connection of its own, byte for byte as it is written
// here: net/http would correct paths and headers. Fields are lines like "x-user: me".
func ask(t *testing.T, address, method, target string, body []byte, fields ...string) answered {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, testkit.Patience)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	return askOver(t, conn, method, target, body, fields...)
}

// askOver sends one request over a connection.
func askOver(t *testing.T, conn net.Conn, method, target string, body []byte, fields ...string) answered {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(testkit.Patience)); err != nil {
		t.Fatal(err)
	}
	head := []string{method + " " + target + " HTTP/1.1"}
	if !slices.ContainsFunc(fields, func(f string) bool { return strings.HasPrefix(f, "host:") }) {
		head = append(head, "host: shop.example")
	}
	head = append(head, fields...)
	if body != nil {
		head = append(head, fmt.Sprintf("content-length: %d", len(body)))
	}
	// Envoy may answer before it has read everything, and close.
	go func() { _, _ = conn.Write(append([]byte(strings.Join(head, "\r\n")+"\r\n\r\n"), body...)) }()
	response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	return answered{response.StatusCode, response.Header, string(content)}
}

// get returns a page.
func get(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %v", url, response.StatusCode, err)
	}
	return string(content)
}

// sumOf adds the series of a name in Prometheus' text format whose labels have all the
// texts.
func sumOf(t *testing.T, page, name string, labels []string) (sum float64) {
	t.Helper()
	for line := range strings.Lines(page) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		if bare, number, ok := strings.Cut(strings.TrimSpace(line), " "); ok && bare == name {
			series, value = bare+"{", number
		}
		missing := func(l string) bool { return !strings.Contains(series, l) }
		if !strings.HasPrefix(series, name+"{") || slices.ContainsFunc(labels, missing) {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		sum += n
	}
	return sum
}
