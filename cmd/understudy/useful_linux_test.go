package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unicode/utf8"
	"unsafe"

	"google.golang.org/grpc/codes"

	"understudy/cmd/testkit"
)

const (
	// healthRules lets everyone see the shop window and what is healthy.
	healthRules = `package envoy.authz

default allow := {"allowed": false, "http_status": 403, "reason": "only operators see what is healthy"}

allow if input.parsed_path[0] == "public"

allow if input.parsed_path[0] == "health"
`
	// tighterHealthRules lets only who runs the shop see what is healthy, and mend it.
	tighterHealthRules = `package envoy.authz

default allow := {"allowed": false, "http_status": 403, "reason": "only operators see what is healthy"}

allow if input.parsed_path[0] == "public"

allow if {
	input.parsed_path[0] == "health"
	startswith(input.attributes.source.principal, "spiffe://cluster.local/ns/operators/")
}

allow if {
	input.parsed_path[0] == "maintenance"
	input.attributes.request.http.method == "POST"
}
`
)

// healthTraffic are 5,000 requests, of which 25 see the health of an order each, by 3 services.
func healthTraffic() (all []question) {
	services := []string{"web", "cart", "billing"}
	for i := range 5000 {
		q := question{method: "GET", path: fmt.Sprintf("/public/catalog/%d", i%40), service: services[i%3]}
		if i%200 == 0 {
			q = question{method: "GET", path: fmt.Sprintf("/health/orders/%d", 1001+i/200), service: services[i/200%3]}
		}
		all = append(all, q)
	}
	return all
}

// sends sends requests, many at a time, each of which is allowed.
func (p *started) sends(t *testing.T, all []question) {
	t.Helper()
	var senders sync.WaitGroup
	next := make(chan question)
	for range 16 {
		senders.Go(func() {
			for q := range next {
				response, err := p.authz.Check(t.Context(), q.request())
				if err != nil || response.GetStatus().GetCode() != int32(codes.OK) {
					t.Errorf("%s is answered with %v, %v; want that it is allowed", q.path, response, err)
				}
			}
		})
	}
	for _, q := range all {
		next <- q
	}
	close(next)
	senders.Wait()
}

// usefulReport is what this test reads of a report.
type usefulReport struct {
	RequestCount, NewlyDeniedCount, PendingRequestCount, UnexaminedRequestCount string
	Differences                                                                 []struct {
		Method, Path, Reason                            string
		RequestCount, EndpointRequestCount, CallerCount string
		Causes                                          []struct {
			File string
			Line int
			Text string
		}
	}
	Items []struct {
		Kind, State, File               string
		Line                            int
		RequestCount, FalseRequestCount string
	}
}

// awaitReport polls the report of an experiment until all requests are counted and examined.
func (p *started) awaitReport(t *testing.T, experiment string, requests int) (r usefulReport) {
	t.Helper()
	r, _ = pollReport(t, p, experiment, fmt.Sprintf("%d requests are examined", requests), func(r usefulReport) bool {
		examined := strings.Trim(r.PendingRequestCount, "0") == "" && len(r.Differences) > 0 && len(r.Differences[0].Causes) > 0
		return r.RequestCount == fmt.Sprint(requests) && examined
	})
	return r
}

// pollReport reads the report of an experiment until it shows what is wanted, and returns it
// also as it came.
func pollReport[R any](t *testing.T, p *started, experiment, want string, shows func(R) bool) (R, string) {
	t.Helper()
	var text string
	var report R
	testkit.Await(t, "the report shows that "+want, func() bool {
		var code int
		if code, text = p.call(t, "admin", "GET", experiment+"/report", ""); code != http.StatusOK {
			t.Fatalf("the report is answered with %d: %s", code, text)
		}
		var r R
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatal(err)
		}
		report = r
		return shows(r)
	}, func() any { return text + "\n" + p.log.String() })
	return report, text
}

// screen returns what a command prints on a terminal of 80 columns and 24 rows.
func (p *started) screen(t *testing.T, args ...string) string {
	t.Helper()
	typed, tty := openTerminal(t)
	size := [4]uint16{24, 80}
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, tty.Fd(), syscall.TIOCSWINSZ, uintptr(unsafe.Pointer(&size))); errno != 0 {
		t.Fatal(errno)
	}
	cmd := program(append(args, "--admin", p.bound["admin"], "--location", location)...)
	cmd.Stdout, cmd.Stderr = tty, tty
	seen := make(chan string)
	go func() {
		var out strings.Builder
		buffer := make([]byte, 4096)
		for {
			n, err := typed.Read(buffer)
			out.Write(buffer[:n])
			if err != nil || strings.HasSuffix(out.String(), "\x04") {
				seen <- strings.TrimSuffix(out.String(), "\x04")
				return
			}
		}
	}()
	err := testkit.Start(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		t.Errorf("%v ends with %v", args, err)
	}
	if _, err := tty.WriteString("\x04"); err != nil { // the end: the command is done
		t.Fatal(err)
	}
	return strings.ReplaceAll(testkit.Receive(t, "the output of the command", seen), "\r\n", "\n")
}

// TestAReportIsUseful has 0.5 % of the requests turned away by a policy that was tightened. The
// report says which, why, whose, and what no request has shown, and fits a screen.
func TestAReportIsUseful(t *testing.T) {
	t.Parallel()
	// All of a burst is compared, however busy the machine is.
	p := startProcess(t, "--location", "projects/p1/locations/l1", "--preview-queue", "20000")
	policy := func(text string) map[string]any {
		return map[string]any{"rules": []any{map[string]any{"rego": map[string]any{}}}, "modules": map[string]string{"health.rego": text}}
	}
	p.must(t, "POST", policies+"?policyId=default", asText(t, policy(healthRules)))
	tighter := policy(tighterHealthRules)
	tighter["name"] = strings.TrimPrefix(policies, "/v1/") + "/default"
	experiments := policies + "/default/experiments"
	p.must(t, "POST", experiments+"?policyExperimentId=tighter", asText(t, map[string]any{"policy": tighter}))
	p.awaitAnswer(t, question{method: "GET", path: "/public/catalog/0", service: "web"}.request(), "OK")
	p.screen(t, "start", "default/tighter") // from then on each request is compared
	p.sends(t, healthTraffic())

	r := p.awaitReport(t, experiments+"/tighter", 5000)
	if len(r.Differences) != 1 || r.NewlyDeniedCount != "25" || strings.Trim(r.UnexaminedRequestCount, "0") != "" {
		t.Fatalf("got %+v, want 25 requests denied in one group, and none that could not be examined", r)
	}
	d := r.Differences[0]
	if d.Method+" "+d.Path != "GET /health/orders/*" || d.RequestCount != "25" || d.EndpointRequestCount != "25" || d.CallerCount != "3" {
		t.Errorf("got %+v, want 25 of 25 of GET /health/orders/* by 3 callers", d)
	}
	if c := d.Causes[0]; c.File != "health.rego" || c.Line != 9 || !strings.HasPrefix(c.Text, "startswith(") {
		t.Errorf("the cause is %+v, want line 9 of health.rego", c)
	}
	if len(r.Items) != 2 || r.Items[0].Kind != "CONDITION" || r.Items[0].Line != 9 || strings.Trim(r.Items[0].RequestCount, "0") != "" || strings.Trim(r.Items[0].FalseRequestCount, "0") == "" ||
		r.Items[1].Kind != "RULE" || r.Items[1].Line != 12 || r.Items[1].State != "UNSEEN" {
		t.Errorf("the items are %+v, want a condition that was not seen true, and the rule of maintenance", r.Items)
	}
	screen := p.screen(t, "report", "default/tighter")
	t.Log("\n" + screen)
	for _, want := range []string{
		"Look first: 25 of 5,000 requests that the live policy allows would be newly\ndenied (0.5%); 25 of 25 requests of GET /health/orders/* would be newly denied;\n2 of 2 items were not seen.", "3 callers at 2 endpoints", "25 of 25  newly denied  GET /health/orders/*", "      3  ",
		"health.rego:9  startswith(", "Unseen   2 of 2 items were not seen\n", "(health.rego:9), added: not seen true\n",
	} {
		if !strings.Contains(screen, want) {
			t.Errorf("the screen does not say %q", want)
		}
	}
	lines := strings.Split(strings.TrimSuffix(screen, "\n"), "\n")
	if len(lines) > 24 {
		t.Errorf("there are %d lines, want at most 24", len(lines))
	}
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("%d columns, want at most 80: %s", n, line)
		}
	}
}
