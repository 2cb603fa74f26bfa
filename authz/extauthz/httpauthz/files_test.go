package httpauthz_test

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"understudy/authz"
	"understudy/authz/extauthz"
	"understudy/authz/extauthz/httpauthz"
	"understudy/authz/extauthz/servertest"
)

var update = flag.Bool("update", false, "write what came out into testdata")

// listenHTTP serves the HTTP flavour of a server on a real port.
func listenHTTP(t testing.TB, s *extauthz.Server, c httpauthz.Config) *httptest.Server {
	t.Helper()
	handler, err := httpauthz.New(s, c)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(handler)
	t.Cleanup(front.Close)
	return front
}

// reply is a response that was read to its end.
type reply struct {
	code   int
	status string
	header http.Header
	body   []byte
}

// sendRaw writes a request as it is and returns the response.
func sendRaw(t testing.TB, front *httptest.Server, raw []byte) *reply {
	t.Helper()
	conn, err := net.Dial("tcp", front.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write(raw); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return &reply{response.StatusCode, response.Status, response.Header, body}
}

// TestHTTPFiles runs the files of testdata/http. Each has request, an HTTP request as
// it stands on the wire; policy.rego; answer, the response, in which <decision ID>
// stands for a UUID; input.json, the input document, unless no policy may see the
// request; and prefix, the path prefix, if it is not /envoy.
func TestHTTPFiles(t *testing.T) {
	for _, file := range matching(t, "testdata/*.txtar") {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { testHTTPFile(t, file) })
	}
}

func matching(t testing.TB, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no %s: %v", pattern, err)
	}
	return files
}

func testHTTPFile(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	parts := make(map[string]*txtar.File)
	for i := range archive.Files {
		parts[archive.Files[i].Name] = &archive.Files[i]
	}
	for _, name := range []string{"request", "policy.rego", "answer"} {
		if parts[name] == nil {
			t.Fatalf("the file has no %s", name)
		}
	}
	c := httpauthz.Config{PathPrefix: "/envoy"}
	if prefix := parts["prefix"]; prefix != nil {
		c.PathPrefix = strings.TrimSpace(string(prefix.Data))
	}
	policy := servertest.ByPolicy(t, string(parts["policy.rego"].Data))
	var asked *authz.Request
	s := servertest.New(t, servertest.Decide(func(ctx context.Context, r *authz.Request) authz.Decision {
		asked = r
		return policy(ctx, r)
	}))
	got := map[string][]byte{"answer": rendered(t, sendRaw(t, listenHTTP(t, s, c), wire(parts["request"].Data)))}
	if asked != nil && parts["input.json"] != nil {
		input, err := asked.Input(nil)
		if err != nil {
			t.Fatal(err)
		}
		document, err := input.Document()
		if err != nil {
			t.Fatal(err)
		}
		got["input.json"] = servertest.Indented(t, document)
	}
	for name, part := range parts {
		if name != "answer" && name != "input.json" {
			continue
		}
		if *update {
			part.Data = got[name]
		} else if diff := cmp.Diff(string(part.Data), string(got[name])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// wire is the text of a request with the line ends of HTTP in its head. In the
// body, which ends without a line end, \xNN stands for a byte.
func wire(text []byte) []byte {
	head, body, _ := strings.Cut(string(text), "\n\n")
	body = strings.TrimSuffix(body, "\n")
	body = strings.NewReplacer(`\xff`, "\xff", `\xfe`, "\xfe").Replace(body)
	return []byte(strings.ReplaceAll(head, "\n", "\r\n") + "\r\n\r\n" + body)
}

// rendered is a reply as text, without its date.
func rendered(t *testing.T, r *reply) []byte {
	t.Helper()
	if id := r.header.Get("X-Understudy-Decision-Id"); id != "" {
		if !servertest.UUID.MatchString(id) {
			t.Errorf("the decision ID %q is no UUID", id)
		}
		r.header.Set("X-Understudy-Decision-Id", "<decision ID>")
	}
	r.header.Del("Date")
	var lines []string
	for name, values := range r.header {
		for _, value := range values {
			lines = append(lines, name+": "+value)
		}
	}
	slices.Sort(lines)
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s\n%s\n\n%s", r.status, strings.Join(lines, "\n"), r.body)
	if len(r.body) > 0 && !bytes.HasSuffix(r.body, []byte("\n")) {
		out.WriteByte('\n')
	}
	return out.Bytes()
}
