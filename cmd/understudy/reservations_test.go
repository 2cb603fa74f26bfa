package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"understudy/cmd/testkit"
	"understudy/cmd/understudy/port/certtest"
	"understudy/cmd/understudy/storage"
)

const reservationExamples = "../../deploy/examples/reservations/"

// withReservations serves reservation checks with a token, which is in the file.
func withReservations(file string) func(*config) {
	return func(c *config) {
		c.reservations = reservationConfig{policy: "leases", addr: "127.0.0.1:0", basePath: "/", tokens: []string{file}}
		c.tlsReload = reloadSoon
	}
}

// keep writes a file.
func keep(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// command runs a command of the binary against the server's admin API.
func (r *running) command(t *testing.T, args ...string) {
	t.Helper()
	var out strings.Builder
	args = append(args, "--admin", r.bound["admin"], "--location", "projects/p1/locations/l1")
	if code := run(t.Context(), args, strings.NewReader(""), &out, &out); code != 0 {
		t.Fatalf("%v ends with %d:\n%s", args, code, out.String())
	}
}

// reserve asks for a lease of so many hosts for an hour, over a connection of its own.
func (r *running) reserve(t *testing.T, client *http.Client, base, token, hosts string) (int, string) {
	t.Helper()
	body := `{"context": {"user_id": "ann", "project_id": "p", "auth_url": "http://keystone/v3", "region_name": "RegionOne"},
		"lease": {"start_date": "2026-11-21T00:00:00", "end_date": "2026-11-21T01:00:00",
			"reservations": [{"resource_type": "physical:host", "min": 1, "max": ` + hosts + `, "allocations": []}]}}`
	request, err := http.NewRequestWithContext(t.Context(), "POST", base+"v1/check-create", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	request.Header = http.Header{"Content-Type": {"application/json"}, "X-Auth-Token": {token}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(content)
}

// TestReservationsBeforeThereArePolicies: a sidecar that has loaded nothing, neither from its store
// nor from a snapshot, denies, and does not allow as it does where it knows that there is no policy.
func TestReservationsBeforeThereArePolicies(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	keep(t, file, "secret-token")
	r := startServer(t, func(c *config) {
		withReservations(file)(c)
		c.Store, c.SnapshotFile = "redis://127.0.0.1:1", ""
	})
	const why = "The policy could not decide about this reservation, so it is not allowed. Ask who runs this cloud."
	if code, body := r.reserve(t, http.DefaultClient, "http://"+r.bound["reservation"]+"/", "secret-token", "1"); code != 403 || !strings.Contains(body, why) {
		t.Errorf("without policies: %d %s; want 403 and that nobody could decide", code, body)
	}
	if code, body := r.call(t, "reservation", "POST", "/v1/on-end", `{"context":{},"lease":{}}`); code == 204 {
		t.Errorf("without a token: %d %s", code, body)
	}
}

// TestALimitIsRehearsed is what the README shows: the live policy answers Blazar, and the
// record says whom a tighter limit would have stopped.
func TestALimitIsRehearsed(t *testing.T) {
	c := newCollector()
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	t.Setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", c.listenGRPC(t))
	t.Setenv("OTEL_BLRP_SCHEDULE_DELAY", "20")
	file := filepath.Join(t.TempDir(), "token")
	keep(t, file, "secret-token\n")
	r := startServer(t, withReservations(file))
	base := "http://" + r.bound["reservation"] + "/"
	r.command(t, "apply", "leases", "-f", reservationExamples+"policy.yaml")
	r.command(t, "apply", "leases/two-hosts", "-f", reservationExamples+"experiment.yaml")
	r.command(t, "start", "leases/two-hosts")

	if code, body := r.reserve(t, http.DefaultClient, base, "secret-token", "3"); code != 204 || body != "" {
		t.Fatalf("3 hosts are answered with %d %s", code, body)
	}
	text := testkit.Receive(t, "a preview record", c.records).String()
	for _, want := range []string{
		`NEWLY_DENIED`, `Your project is limited to 2 physical hosts in a lease; this one has 3.`,
		`"check-create"`, `"/v1/check-create"`, `"ann"`, `policies/leases/experiments/two-hosts`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the record has no %s: %s", want, text)
		}
	}
	if strings.Contains(text, "secret-token") || strings.Contains(text, "keystone") {
		t.Errorf("the record has something of the body or the headers: %s", text)
	}
	if code, body := r.reserve(t, http.DefaultClient, base, "secret-token", "5"); code != 403 ||
		body != `{"message":"Your project is limited to 4 physical hosts in a lease; this one has 5."}`+"\n" {
		t.Errorf("5 hosts are answered with %d %s", code, body)
	}
	if code, _ := r.reserve(t, http.DefaultClient, base, "another", "1"); code != 401 {
		t.Errorf("another token is answered with %d", code)
	}
	if code, body := r.call(t, "health", "GET", "/readyz", ""); code != 200 || !strings.Contains(body, r.bound["reservation"]) {
		t.Errorf("readiness is %d %s", code, body)
	}
	if _, metrics := r.call(t, "health", "GET", "/metrics", ""); !strings.Contains(metrics, `understudy_reservation_calls_total{call="check-create"`) {
		t.Error("the metrics have no calls")
	}
}

// TestTokensAreRotated writes the files of a running server.
func TestTokensAreRotated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old, next := filepath.Join(dir, "old"), filepath.Join(dir, "next")
	keep(t, old, "one")
	keep(t, next, "  two\n")
	r := startServer(t, func(c *config) {
		withReservations(old)(c)
		c.reservations.tokens = []string{old, next}
	})
	r.awaitReady(t)
	until := func(token string, want int) {
		t.Helper()
		code := 0
		testkit.Await(t, fmt.Sprintf("the token %s is answered with %d", token, want), func() bool {
			code, _ = r.reserve(t, http.DefaultClient, "http://"+r.bound["reservation"]+"/", token, "1")
			return code == want
		}, func() any { return code })
	}
	until("one", 204)
	until("two", 204)
	keep(t, old, "three")
	until("three", 204)
	until("one", 401)
	// What makes no sense changes nothing, and does not open the port.
	keep(t, old, "")
	keep(t, next, "four")
	until("three", 204)
	until("two", 204)
	keep(t, old, "four")
	until("two", 401)
	until("four", 204)
}

// TestReservationsOverTLS has a base path too.
func TestReservationsOverTLS(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority(t, t.TempDir(), "ca")
	file := filepath.Join(t.TempDir(), "token")
	keep(t, file, "token")
	r := startServer(t, func(c *config) {
		withReservations(file)(c)
		c.reservations.tls, c.reservations.basePath = serverFiles(ca.Server(t, "server", 1)), "/blazar"
	})
	r.awaitReady(t)
	content, err := os.ReadFile(ca.File)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(content)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	if code, body := r.reserve(t, client, "https://"+r.bound["reservation"]+"/blazar/", "token", "1"); code != 204 {
		t.Errorf("over TLS a call is answered with %d %s", code, body)
	}
	if code, _ := r.reserve(t, http.DefaultClient, "http://"+r.bound["reservation"]+"/blazar/", "token", "1"); code != 400 {
		t.Errorf("without TLS a call is answered with %d", code)
	}
}

// TestAReservationUnderWayIsAnswered stops the server in the middle of a call.
func TestAReservationUnderWayIsAnswered(t *testing.T) {
	t.Parallel()
	r := startServer(t, func(c *config) { withReservations("")(c); c.reservations.tokens = nil })
	r.awaitReady(t)
	conn, err := net.Dial("tcp", r.bound["reservation"])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	// The interim answer to Expect says that the body is being read.
	const body = `{"context": {}, "lease": {}}`
	head := "POST /check-create HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) +
		"\r\nExpect: 100-continue\r\n\r\n"
	if _, err := io.WriteString(conn, head); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(conn)
	for range 2 {
		if _, err := answers.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	r.stop()
	r.refuses(t, "reservation")
	if _, err := io.WriteString(conn, body); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != 204 {
		t.Errorf("the call under way is answered with %d", response.StatusCode)
	}
}

// TestAPortBeyondThisMachineNeedsAToken also shows what else does not go together.
func TestAPortBeyondThisMachineNeedsAToken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{"good": "token", "empty": " \n", "two": "a b", "bytes": "a\xff", "long": strings.Repeat("x", 9<<10)} {
		keep(t, filepath.Join(dir, name), content)
	}
	file := func(name string) string { return "--reservation-token-file=" + filepath.Join(dir, name) }
	on := "--reservation-policy=leases"
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{[]string{on, "--reservation-addr=0.0.0.0:0"}, "add --reservation-token-file"},
		{[]string{on, "--reservation-addr=:9192"}, "add --reservation-token-file"},
		{[]string{on, "--reservation-addr=9192", file("good")}, "--reservation-addr: it is host:port"},
		{[]string{on, file("nothing")}, "no such file"},
		{[]string{on, file("good"), file("empty")}, "it holds one token"},
		{[]string{on, file("two")}, "it holds one token"},
		{[]string{on, file("bytes")}, "it holds one token"},
		{[]string{on, file("long")}, "it has more than 8192 bytes"},
		{[]string{file("good")}, "served only with --reservation-policy"},
		{[]string{"--reservation-policy=a b"}, "--reservation-policy: an ID has letters"},
		{[]string{on, "--enable=admin"}, "add authz to --enable"},
		{[]string{on, "--reservation-base-path=blazar"}, "it begins with a slash"},
		{[]string{on, "--reservation-tls-cert=x"}, "it comes with --reservation-tls-key"},
		{[]string{"--reservation-tls-cert=x", "--reservation-tls-key=y"}, "served only with --reservation-policy"},
	} {
		var out strings.Builder
		args := append([]string{"serve", "--authz-addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0", "--health-addr=127.0.0.1:0",
			"--store=" + storage.BoltScheme + filepath.Join(t.TempDir(), "understudy.db")}, c.flags...)
		ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
		code := run(ctx, args, strings.NewReader(""), &out, &out)
		cancel()
		if code != 2 || !strings.Contains(out.String(), c.want) {
			t.Errorf("%v ends with %d, and no %q: %s", c.flags, code, c.want, out.String())
		}
	}
}

// TestAReservationAsksAService goes the whole way: the chain of a file, a call of
// Blazar's, and a service that is sent its own token and the lease.
func TestAReservationAsksAService(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 3)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		asked <- r.URL.Path + " " + r.Header.Get("X-Auth-Token") + " " + strconv.FormatBool(strings.Contains(string(body), `"physical:host"`))
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"message": "Your project has used its budget."}`)
	}))
	t.Cleanup(service.Close)
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		keep(t, path, content)
		return path
	}
	r := startServer(t, func(c *config) {
		withReservations(file("blazar", "from-blazar"))(c)
		c.external.tokenFiles, c.external.allow = []string{"http://127.0.0.1=" + file("usage", "to-usage")}, []string{"127.0.0.1"}
	})
	r.command(t, "apply", "leases", "-f", file("policy.yaml", `
rules:
  - {ruleId: length, maximumReservationLength: {reservationMaxLength: 3600s}}
  - {ruleId: usage, externalService: {endpointUrl: "`+service.URL+`"}}
`))
	base := "http://" + r.bound["reservation"] + "/"
	if code, body := r.reserve(t, http.DefaultClient, base, "from-blazar", "1"); code != 403 || body != `{"message":"Your project has used its budget."}`+"\n" {
		t.Errorf("got %d %s", code, body)
	}
	if got := testkit.Receive(t, "the service to be asked", asked); got != "/v1/check-create to-usage true" {
		t.Errorf("the service is asked %s", got)
	}
	r.command(t, "apply", "leases", "-f", file("exempt.yaml", `
rules: [{externalService: {endpointUrl: "`+service.URL+`"}}]
exemptedProjects: [p]
`))
	if code, body := r.reserve(t, http.DefaultClient, base, "from-blazar", "1"); code != 204 {
		t.Errorf("an exempt project gets %d %s", code, body)
	}
	if len(asked) != 0 {
		t.Errorf("the service is asked about an exempt project: %s", <-asked)
	}
}
