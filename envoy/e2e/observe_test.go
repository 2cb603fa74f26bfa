//go:build realenvoy

package e2e_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"understudy/cmd/testkit"
)

// next to is the file for an observer next to an authorizer, and a listener that has the
// authorizer alone.
type observed struct {
	observer, authorizer *sidecar
	envoy                *envoy
}

func newObserved(t *testing.T) *observed {
	t.Helper()
	b := &observed{observer: newSidecar(t, "--observe"), authorizer: newSidecar(t)}
	b.observer.apply(t, "web", "testdata/observer.rego")
	b.authorizer.apply(t, "web", "testdata/web.rego")
	c := shipped(t, "observe.yaml").local(t, newUpstream(t)).
		move(t, "understudy", 9191, b.observer.listening.Authz).move(t, "authorizer", 9191, b.authorizer.listening.Authz)
	c.variant(t, "alone", func(l node) {
		m := manager(t, l)
		m["http_filters"] = m["http_filters"].([]any)[1:]
		for _, r := range at(m, "route_config", "virtual_hosts", 0, "routes").([]any) {
			delete(r.(node), "typed_per_filter_config")
		}
	})
	b.envoy = newEnvoy(t, c)
	return b
}

// observedRequests are what is asked with and without the observer.
var observedRequests = []struct {
	method, target string
	body           []byte
	fields         []string
}{
	{"GET", "/public/x?q=1", nil, []string{"x-other: o", "x-user: u"}},
	{"HEAD", "/public/x", nil, nil},
	{"GET", "/private/x", nil, nil},
	{"GET", "/edited/x?debug=1&page=1", nil, []string{"x-user: mallory", "x-secret: s", "x-other: o"}},
	{"GET", "/login", nil, nil},
	{"GET", "/unknown", nil, nil},
	{"GET", "/large", nil, nil},
	{"GET", "/broken", nil, nil},
	{"GET", "/billing/x", nil, nil},
	{"GET", "/public/../private/x", nil, nil},
	{"GET", "/x?a=%zz", nil, nil},
	{"POST", "/orders", []byte(`{"amount": 5}`), []string{"content-type: application/json"}},
	{"POST", "/orders", []byte(`{"amount": 500}`), []string{"content-type: application/json"}},
	{"POST", "/orders", []byte(`{"amount": 5`), []string{"content-type: application/json"}},
	{"POST", "/public/x", []byte(strings.Repeat("x", 100_000)), nil},
}

// ofTheMoment is what differs between any two answers: the time, the request's ID and
// how long it took. The upstream's answer has the ID as well.
var ofTheMoment = regexp.MustCompile(`(?im)^(date|x-request-id|x-envoy-upstream-service-time): .*$|"X-Request-Id":\["[^"]*"\]`)

// bytesOf asks and returns the answer as it was sent, but for what is of the moment.
func bytesOf(t *testing.T, address string, i int) string {
	t.Helper()
	r := observedRequests[i]
	conn, err := net.DialTimeout("tcp", address, testkit.Patience)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(testkit.Patience)); err != nil {
		t.Fatal(err)
	}
	head := append([]string{r.method + " " + r.target + " HTTP/1.1", "host: shop.example", "connection: close"}, r.fields...)
	if r.body != nil {
		head = append(head, fmt.Sprint("content-length: ", len(r.body)))
	}
	go func() { _, _ = conn.Write(append([]byte(strings.Join(head, "\r\n")+"\r\n\r\n"), r.body...)) }()
	answer, err := io.ReadAll(bufio.NewReader(conn))
	if err != nil {
		t.Fatalf("%s %s: %v", r.method, r.target, err)
	}
	return ofTheMoment.ReplaceAllString(string(answer), "*")
}

// same asks everything with the observer and without it: client and upstream see the
// enforcing one alone, byte for byte.
func (b *observed) same(t *testing.T) {
	t.Helper()
	for i, r := range observedRequests {
		with, without := bytesOf(t, b.envoy.at["ingress"], i), bytesOf(t, b.envoy.at["alone"], i)
		if diff := cmp.Diff(without, with); diff != "" {
			t.Errorf("%s %s (-without +with the observer):\n%s", r.method, r.target, diff)
		}
		if strings.Contains(with, "bserver") {
			t.Errorf("%s %s: the observer is seen: %.300s", r.method, r.target, with)
		}
	}
}

// TestAnObserverIsNotSeen: not while it works, hangs or is dead.
func TestAnObserverIsNotSeen(t *testing.T) {
	t.Parallel()
	b := newObserved(t)
	b.same(t)
	if n := b.observer.metric(t, "understudy_checks_total", `observing="true"`); n == 0 {
		t.Error("the observer was not asked")
	}
	b.observer.signal(t, syscall.SIGSTOP)
	b.same(t)
	b.observer.signal(t, syscall.SIGCONT)
	l := newLoad(t, b.envoy.at["ingress"])
	l.answered(t, 50)
	b.observer.kill(t)
	l.answered(t, 50)
	b.same(t)
	l.outcome().check(t, hardlyAny)
}

// listing is the command that the file gives its reader: where the decisions differ.
func listing(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile("../observe.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		if command, ok := strings.CutPrefix(strings.TrimSpace(line), "#   grep "); ok {
			return "grep " + command
		}
	}
	t.Fatal("observe.yaml has no command that lists differences")
	return ""
}

// TestDecisionsAreCompared: the access log has both decisions, and the command of the file
// finds those requests on which they differ, and no others.
func TestDecisionsAreCompared(t *testing.T) {
	t.Parallel()
	b := newObserved(t)
	asked := map[string]string{
		"/public/1":  "DENY via_upstream",
		"/private/1": "ALLOW ext_authz_denied",
		"/login":     "ALLOW ext_authz_denied",
		"/edited/1":  "DENY via_upstream",
		"/billing/1": "DENY ext_authz_denied", // there is no such policy
	}
	var differ []string
	for path, decisions := range asked {
		line := b.logged(t, path)
		if line["decisions"] != decisions {
			t.Errorf("%s: the decisions are %v; want %s", path, line["decisions"], decisions)
		}
		if id, _ := line["observed_decision_id"].(string); len(id) != 36 {
			t.Errorf("%s: the observer's decision ID is %q", path, id)
		}
		if path == "/public/1" && line["observed_reason"] != "the observer denies it" {
			t.Errorf("%s: the observer's reason is %v", path, line["observed_reason"])
		}
		if decisions != "DENY ext_authz_denied" {
			differ = append(differ, path)
		}
	}
	// A request on which both agree, and one of which only the other knows.
	b.observer.kill(t)
	if line := b.logged(t, "/public/2"); line["decisions"] != "- via_upstream" || line["observed_failure"] != nil {
		t.Errorf("without the observer: %v", line)
	}
	slices.Sort(differ)
	if found := b.differing(t); !cmp.Equal(found, differ) {
		t.Errorf("the command lists %v; want %v", found, differ)
	}
}

// logged asks, and returns the line of the access log. A request that the observer was
// too slow for, on a busy machine, is asked again.
func (b *observed) logged(t *testing.T, path string) map[string]any {
	t.Helper()
	for range 20 {
		from := b.envoy.out.count()
		ask(t, b.envoy.at["ingress"], "GET", path, nil)
		line := b.envoy.line(t, from, `"path":"`+path+`"`)
		select {
		case <-b.observer.ended:
			return line
		default:
		}
		if line["observed_decision_id"] != nil {
			return line
		}
	}
	t.Fatalf("%s: the observer never answers in time", path)
	return nil
}

// differing runs the command on the access log and returns the paths that it lists.
func (b *observed) differing(t *testing.T) (paths []string) {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "access.log"), []byte(strings.Join(b.envoy.out.with(""), "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command("sh", "-c", listing(t))
	command.Dir = folder
	out, err := testkit.CombinedOutput(command)
	if err != nil {
		t.Fatalf("%s: %v\n%s", listing(t), err, out)
	}
	for _, m := range regexp.MustCompile(`"path":"([^"]*)"`).FindAllStringSubmatch(string(out), -1) {
		paths = append(paths, m[1])
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// TestIstiosObserver: the patches of deploy/istio/observe.yaml, put into an Envoy as
// Istio would, watch and refuse nobody.
func TestIstiosObserver(t *testing.T) {
	t.Parallel()
	observer, authorizer := newSidecar(t, "--observe"), newSidecar(t)
	observer.apply(t, "web", "testdata/observer.rego")
	authorizer.apply(t, "web", "testdata/web.rego")
	patches := at(shipped(t, "../deploy/istio/observe.yaml").tree, "spec", "configPatches")
	c := shipped(t, "envoy.yaml").move(t, "understudy", 9191, authorizer.listening.Authz)
	before(t, c.listener(t, "ingress"), object(t, patches, 0, "patch", "value"))
	c.add(t, "clusters", object(t, patches, 1, "patch", "value"))
	e := newEnvoy(t, c.move(t, "127.0.0.1", 9191, observer.listening.Authz).local(t, newUpstream(t)))
	decidesByPolicy(t, e.at["ingress"])
	if n := observer.metric(t, "understudy_checks_total", `observing="true"`); n != 2 {
		t.Errorf("the observer was asked %v times; want twice", n)
	}
	observer.kill(t)
	decidesByPolicy(t, e.at["ingress"])
}
