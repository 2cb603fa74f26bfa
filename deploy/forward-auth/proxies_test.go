//go:build realproxies

// Package forwardauth_test asks the real nginx and the real Caddy, each with its file
// as it is shipped: addresses and ports are replaced, and nothing else.
//
//	make test-proxies
package forwardauth_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"understudy/cmd/testkit"
)

// proxy is one that asks Understudy before it sends a request to its upstream.
type proxy struct {
	name string
	// file is the one that is shipped.
	file string
	// command runs it in the foreground with its configuration, in a folder of its own.
	command func(file, folder string) *exec.Cmd
	// denials are the statuses of a policy, and what the client gets.
	denials map[string]int
	// cookies are those that are left of a denial's a=1 and b=2.
	cookies []string
	// timeout is how long the proxy waits for Understudy, in place of the shipped one.
	timeout string
}

var proxies = []proxy{
	{
		name: "nginx", file: "nginx.conf",
		command: func(file, folder string) *exec.Cmd {
			return exec.Command("nginx", "-p", folder, "-c", file, "-g", "daemon off; master_process off; error_log stderr; pid "+folder+"/pid;") // a worker would outlive its master
		},
		denials: map[string]int{
			"301": 301, "302": 302, "303": 303, "307": 307, "308": 308, "400": 400, "401": 401, "403": 403, "404": 404, "413": 413,
			"410": 403, "429": 429, "500": 403, "503": 503,
		},
		cookies: []string{"a=1; Path=/"},
	},
	{
		name: "Caddy", file: "Caddyfile",
		command: func(file, folder string) *exec.Cmd {
			c := exec.Command("caddy", "run", "--adapter", "caddyfile", "--config", file)
			c.Env = append(os.Environ(), "HOME="+folder, "XDG_CONFIG_HOME="+folder, "XDG_DATA_HOME="+folder)
			return c
		},
		denials: map[string]int{
			"301": 301, "302": 302, "303": 303, "307": 307, "308": 308, "400": 400, "401": 401, "403": 403, "404": 404, "413": 413,
			"410": 410, "429": 429, "500": 500, "503": 503,
		},
		cookies: []string{"a=1; Path=/", "b=2; Path=/"},
	},
}

func eachProxy(t *testing.T, test func(t *testing.T, p proxy)) {
	for _, p := range proxies {
		p.timeout = "60s"
		t.Run(p.name, func(t *testing.T) { test(t, p) })
	}
}

// TestOnePathForAll sends spellings of denied paths that begin like allowed ones: none
// reaches the upstream.
func TestOnePathForAll(t *testing.T) {
	eachProxy(t, func(t *testing.T, p proxy) {
		up := newUpstream(t)
		front := p.start(t, sidecar(t), up.address)
		for _, target := range []string{
			"/internal/stock", "/public/../internal/stock", "/public/./../internal/stock", "/public/..", "/..", "/public/x/../../internal/stock",
			"/public/%2e%2e/internal/stock", "/public/%2E%2E/internal/stock", "/public/.%2e/internal/stock", "/public/%2e./internal/stock",
			"/public/%2e%2e%2finternal/stock", "/public%2f..%2finternal/stock", "/public%2F%2e%2E%2Finternal/stock", "/public/..%2finternal/stock",
			"/public/..%5cinternal/stock", `/public/..\internal\stock`, "/public%5C..%5Cinternal/stock", "/public/..;/internal/stock",
			"/public/..;x=1/internal/stock", "//internal/stock", "/public//../internal/stock", "/public//x", "/public/../internal/stock?a=/x",
			"/internal/stock#/../public/x", "/public/x#/../../internal/stock", "/public/%2e%2e;/internal/stock", "/public/..%00/internal/stock",
			"http://shop.example/public/../internal/stock",
		} {
			if got := front.send(t, "GET", target, nil, ""); got.StatusCode < 400 || got.StatusCode >= 500 {
				t.Errorf("%s: %s", target, got.Status)
			}
		}
		if got := up.seen(); len(got) > 0 {
			t.Errorf("the upstream got %q", got)
		}
		for _, target := range []string{
			"/", "/public/", "/public/x", "/public/..x", "/public/...", "/.well-known/x", "/public/a;b=1/c", "/public/%2ex", "/public/%252e%252e/x",
			"/public/x?next=/../internal&u=https://y//z%2f..%2f", "/public/%C3%A4",
		} {
			if got := front.send(t, "GET", target, nil, ""); got.StatusCode != 200 {
				t.Errorf("%s: %s", target, got.Status)
			}
			if got := up.last().target; got != target {
				t.Errorf("%s arrives as %s", target, got)
			}
		}
	})
}

// TestUserIsThePolicys holds the header that a policy may set against what clients send
// in its place.
func TestUserIsThePolicys(t *testing.T) {
	eachProxy(t, func(t *testing.T, p proxy) {
		up := newUpstream(t)
		front := p.start(t, sidecar(t), up.address)
		for _, c := range []struct {
			target string
			header http.Header
			want   []string
		}{
			{"/user", nil, []string{"alice"}},
			{"/user", http.Header{"X-User": {"mallory"}}, []string{"alice"}},
			{"/user", http.Header{"Connection": {"X-User"}}, []string{"alice"}},
			{"/user", http.Header{"Connection": {"keep-alive, x-user"}}, []string{"alice"}},
			{"/user", http.Header{"Connection": {"close", "X-User"}}, []string{"alice"}},
			{"/public/x", nil, nil},
			{"/public/x", http.Header{"X-User": {"mallory"}}, nil},
			{"/public/x", http.Header{"x_user": {"mallory"}}, nil},
		} {
			if got := front.send(t, "GET", c.target, c.header, ""); got.StatusCode != 200 {
				t.Errorf("%s with %v: %s", c.target, c.header, got.Status)
			}
			if got := up.last().target; got != c.target {
				t.Errorf("%s arrives as %q", c.target, got)
			}
			if diff := cmp.Diff(c.want, up.last().header.Values("X-User")); diff != "" {
				t.Errorf("%s with %v: the user (-want +got):\n%s", c.target, c.header, diff)
			}
		}
	})
}

// TestForgedSubrequests sends what only the proxy may send to Understudy.
func TestForgedSubrequests(t *testing.T) {
	forged := http.Header{}
	for name, value := range map[string]string{
		"X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/public/x", "X-Forwarded-Host": "shop.example", "X-Forwarded-Proto": "https",
		"X-Forwarded-For": "192.0.2.1", "X-Original-Method": "GET", "X-Original-Url": "https://shop.example/public/x", "X-Original-Uri": "/public/x",
	} {
		forged.Set(name, value)
	}
	eachProxy(t, func(t *testing.T, p proxy) {
		up := newUpstream(t)
		front := p.start(t, sidecar(t), up.address)
		if got := front.send(t, "GET", "/internal/stock", forged, ""); got.StatusCode != 403 {
			t.Errorf("a client says what is decided: %s", got.Status)
		}
		if got := front.send(t, "GET", "/public/x", forged, ""); got.StatusCode != 200 {
			t.Errorf("forged headers change the decision: %s", got.Status)
		}
	})
}

func TestUploadsAreNotHeld(t *testing.T) {
	eachProxy(t, func(t *testing.T, p proxy) {
		up := newUpstream(t)
		front := p.start(t, sidecar(t), up.address)
		if got := front.send(t, "POST", "/uploads", nil, strings.Repeat("x", 3<<20)); got.StatusCode != 200 {
			t.Errorf("an upload of 3 MiB: %s", got.Status)
		}
		if got := up.last(); got.method != "POST" || got.size != 3<<20 {
			t.Errorf("%s of %d bytes arrives", got.method, got.size)
		}
	})
}

// TestWhatIsLeftOfADenial is the table of what a client sees of a policy's answer.
func TestWhatIsLeftOfADenial(t *testing.T) {
	eachProxy(t, func(t *testing.T, p proxy) {
		front := p.start(t, sidecar(t), newUpstream(t).address)
		for status, want := range p.denials {
			got := front.send(t, "GET", "/denied/"+status, nil, "")
			if got.StatusCode != want {
				t.Errorf("%s: %s, want %d", status, got.Status, want)
			}
			if want/100 == 3 && got.Header.Get("Location") != "/login?next=1" {
				t.Errorf("%s leads to %q", status, got.Header.Get("Location"))
			}
			if want == 401 { // nginx answers it by itself, with this header of the policy
				if got.Header.Get("Www-Authenticate") != "Bearer" {
					t.Errorf("%s asks for %q", status, got.Header.Get("Www-Authenticate"))
				}
				continue
			}
			if diff := cmp.Diff(p.cookies, got.Header.Values("Set-Cookie")); diff != "" {
				t.Errorf("%s: cookies (-want +got):\n%s", status, diff)
			}
			if got.Header.Get("Retry-After") != "7" {
				t.Errorf("%s: Retry-After %q", status, got.Header.Get("Retry-After"))
			}
		}
	})
}

// TestUnderstudyIsAway asks while Understudy hangs, and while it is not there.
func TestUnderstudyIsAway(t *testing.T) {
	stalled, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stalled.Close() }()
	eachProxy(t, func(t *testing.T, p proxy) {
		p.timeout = "1s"
		up := newUpstream(t)
		for name, address := range map[string]string{"hangs": stalled.Addr().String(), "is away": "127.0.0.1:1"} {
			front := p.start(t, address, up.address)
			got := front.send(t, "GET", "/public/x", nil, "")
			if got.StatusCode != 503 || got.Header.Get("Retry-After") != "1" {
				t.Errorf("Understudy %s: %s, Retry-After %q", name, got.Status, got.Header.Get("Retry-After"))
			}
		}
		if got := up.seen(); len(got) > 0 {
			t.Errorf("the upstream got %q", got)
		}
	})
}

// front is a proxy that runs.
type front struct{ address string }

// start runs the proxy with its shipped file until the test ends.
func (p proxy) start(t *testing.T, sidecar, upstream string) front {
	t.Helper()
	shipped, err := os.ReadFile(p.file)
	if err != nil {
		t.Fatal(err)
	}
	for {
		address := testkit.FreeAddress()
		_, port, _ := net.SplitHostPort(address)
		folder := t.TempDir()
		content := strings.NewReplacer(
			"understudy:9193", sidecar, "upstream:8080", upstream, "listen 8000", "listen "+address,
			"_timeout 1s", "_timeout "+p.timeout, // a busy machine is no sidecar that hangs
			":8000 {", "{\n\tadmin unix/"+folder+"/admin\n}\nhttp://:"+port+" {\n\tbind 127.0.0.1",
		).Replace(string(shipped))
		file := filepath.Join(folder, p.file)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if launch(t, p.command(file, folder), address, "/") {
			return front{address}
		}
	}
}

// launch starts a command and waits until its port answers HTTP. It reports false if the
// command ended before, as it does if the port is taken. The command ends with the test binary.
func launch(t *testing.T, command *exec.Cmd, address, path string) bool {
	t.Helper()
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := testkit.Start(command); err != nil {
		t.Fatalf("%v: run .ci/need nginx caddy", err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = command.Wait() }()
	t.Cleanup(func() {
		_ = command.Process.Signal(os.Interrupt)
		select {
		case <-ended:
		case <-time.After(testkit.Patience):
			t.Errorf("%s does not end", command.Path)
			_ = command.Process.Kill()
			testkit.Closed(t, "the proxy to end", ended)
		}
		if t.Failed() {
			t.Logf("%s:\n%s", command.Path, output.String())
		}
	})
	answers := false
	testkit.Await(t, command.Path+" answers at "+address, func() bool {
		select {
		case <-ended:
			return true
		default:
		}
		response, err := http.Get("http://" + address + path)
		if err == nil {
			_ = response.Body.Close()
			answers = true
		}
		return answers
	})
	if !answers && !strings.Contains(output.String(), "in use") {
		t.Fatalf("%s ended:\n%s", command.Path, output.String())
	}
	return answers
}

// reply is what is left of a response whose body was read.
type reply struct {
	StatusCode int
	Status     string
	Header     http.Header
}

// send writes a request as it is, so that no client cleans its target.
func (f front) send(t *testing.T, method, target string, header http.Header, body string) reply {
	t.Helper()
	conn, err := net.Dial("tcp", f.address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	var request bytes.Buffer
	fmt.Fprintf(&request, "%s %s HTTP/1.1\r\nHost: shop.example\r\nContent-Length: %d\r\n", method, target, len(body))
	for name, values := range header {
		for _, value := range values {
			fmt.Fprintf(&request, "%s: %s\r\n", name, value)
		}
	}
	go func() {
		_, _ = io.Copy(conn, io.MultiReader(&request, strings.NewReader("\r\n"), strings.NewReader(body)))
	}()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	return reply{response.StatusCode, response.Status, response.Header}
}

// upstream notes what it gets.
type upstream struct {
	address string
	mu      sync.Mutex
	got     []arrival
}

type arrival struct {
	method, target string
	header         http.Header
	size           int64
}

func newUpstream(t *testing.T) *upstream {
	u := &upstream{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		u.mu.Lock()
		defer u.mu.Unlock()
		u.got = append(u.got, arrival{r.Method, r.RequestURI, r.Header.Clone(), n})
	}))
	t.Cleanup(server.Close)
	u.address = server.Listener.Addr().String()
	return u
}

// seen are the targets that arrived, without that of the proxy's start.
func (u *upstream) seen() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []string
	for _, a := range u.got {
		if a.target != "/" {
			out = append(out, a.target)
		}
	}
	return out
}

// last is what arrived last.
func (u *upstream) last() arrival {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.got) == 0 {
		return arrival{}
	}
	return u.got[len(u.got)-1]
}

// program is the file of the program itself.
var program string

func TestMain(m *testing.M) {
	if program = os.Getenv("UNDERSTUDY"); program != "" { // it was built already
		os.Exit(m.Run())
	}
	folder, err := os.MkdirTemp("", "understudy")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(folder, "understudy")
	if output, err := testkit.CombinedOutput(exec.Command("go", "build", "-o", program, "../../cmd/understudy")); err != nil {
		fmt.Fprintf(os.Stderr, "building the program: %v\n%s", err, output)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(folder)
	os.Exit(code)
}

// sidecar runs the program with the policy of testdata as "shop" and returns where it is
// asked over HTTP.
func sidecar(t *testing.T) string {
	t.Helper()
	policy, err := os.ReadFile("testdata/policy.rego")
	if err != nil {
		t.Fatal(err)
	}
	document, err := json.Marshal(map[string]any{
		"rules": []any{map[string]any{"rego": map[string]any{}}}, "modules": map[string]string{"policy.rego": string(policy)},
	})
	if err != nil {
		t.Fatal(err)
	}
	for {
		folder, asked, admin, health := t.TempDir(), testkit.FreeAddress(), testkit.FreeAddress(), testkit.FreeAddress()
		command := exec.Command(program, "serve", "--store", "bolt://"+folder+"/store.db", "--authz-addr", "127.0.0.1:0",
			"--http-authz-addr", asked, "--admin-addr", admin, "--health-addr", health, "--decision-timeout", "30s")
		command.Dir = folder
		if !launch(t, command, health, "/readyz") {
			continue
		}
		apply := exec.Command(program, "apply", "shop", "-f", "-", "--admin", admin)
		apply.Stdin = bytes.NewReader(document)
		if output, err := testkit.CombinedOutput(apply); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		return asked
	}
}
