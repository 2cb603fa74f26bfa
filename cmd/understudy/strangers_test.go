package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	// ordersRules let everyone read orders, and nobody else do anything.
	ordersRules = `package envoy.authz

default allow := {"allowed": false, "http_status": 403, "reason": "no rule allows it"}

allow if {
	input.parsed_path[0] == "orders"
	input.attributes.request.http.method == "GET"
}
`
	// payrollRules let nobody read orders any more, and everyone export the payroll.
	payrollRules = `package envoy.authz

default allow := {"allowed": false, "http_status": 403, "reason": "no rule allows it"}

allow if input.parsed_path == ["payroll", "export"]
`
	// slowRules allow as ordersRules do, but for order 7, and take their time for each order.
	slowRules = `package envoy.authz

default allow := {"allowed": false, "http_status": 403, "reason": "no rule allows it"}

allow if {
	input.parsed_path[0] == "orders"
	not endswith(input.parsed_path[1], "7")
	count([1 | some i in numbers.range(1, 200); some j in numbers.range(1, 200); i * j == to_number(input.parsed_path[1])]) >= 0
}
`
)

// asks sends requests, many at a time, whatever the answers are.
func (p *started) asks(t *testing.T, all []question) {
	t.Helper()
	var senders sync.WaitGroup
	next := make(chan question)
	for range 16 {
		senders.Go(func() {
			for q := range next {
				if _, err := p.authz.Check(t.Context(), q.request()); err != nil {
					t.Errorf("%s %s: %v", q.method, q.path, err)
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

// previews has a process decide by a live policy, and preview an experiment with another one.
func previews(t *testing.T, live, experiment string, flags ...string) *started {
	t.Helper()
	p := startProcess(t, append([]string{"--location", "projects/p1/locations/l1"}, flags...)...)
	policy := func(text string) map[string]any {
		return map[string]any{"rules": []any{map[string]any{"rego": map[string]any{}}}, "modules": map[string]string{"a.rego": text}}
	}
	p.must(t, "POST", policies+"?policyId=default", asText(t, policy(live)))
	candidate := policy(experiment)
	candidate["name"] = strings.TrimPrefix(policies, "/v1/") + "/default"
	p.must(t, "POST", policies+"/default/experiments?policyExperimentId=next", asText(t, map[string]any{"policy": candidate}))
	p.awaitPolicy(t, question{method: "GET", path: "/orders/1", service: "web"}.request())
	p.command(t, "start", "default/next")
	return p
}

// command returns what a command prints, and its exit code.
func (p *started) command(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "understudy", append(args, "--admin", p.bound["admin"], "--location", "projects/p1/locations/l1")...)
	cmd.Env = append(os.Environ(), "NO_COLOR=1")
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// says checks that a text has some others in it.
func says(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("it does not say %q:\n%s", w, text)
		}
	}
}

// TestStrangersMakeNoEvidence: 1,400 requests to made-up paths that both policies refuse come first. They meet
// no requirement, and take the names from none of the 500 requests that would be denied and the five that would
// be let in.
func TestStrangersMakeNoEvidence(t *testing.T) {
	t.Parallel()
	p := previews(t, ordersRules, payrollRules, "--preview-queue", "20000")
	var all []question
	for i := range 1400 {
		all = append(all, question{method: "GET", path: fmt.Sprintf("/%s%s/x", word(i), word(i/26)), service: "stranger"})
	}
	p.asks(t, all)
	all = nil
	for i := range 500 {
		all = append(all, question{method: "GET", path: "/orders/list", service: fmt.Sprint("web-", i%20)})
	}
	for range 5 {
		all = append(all, question{method: "POST", path: "/payroll/export", service: "hr"})
	}
	p.asks(t, all)
	r, _ := pollReport(t, p, policies+"/default/experiments/next", "1,905 requests are compared", func(r usefulReport) bool { return r.RequestCount == "1905" })
	groups := make(map[string]int)
	for _, d := range r.Differences {
		n, err := strconv.Atoi(d.RequestCount)
		if err != nil {
			t.Fatal(err)
		}
		groups[d.Method+" "+d.Path] = n
	}
	// The first of a path may be counted as `*`, before that has a name.
	orders, payroll := groups["GET /orders/list"], groups["POST /payroll/export"]
	if orders < 490 || orders+groups["GET /*/list"] != 500 || payroll < 4 || payroll+groups["POST /*/export"] != 5 {
		t.Errorf("the groups are %v, want 500 of GET /orders/list and 5 of POST /payroll/export", groups)
	}
	text, code := p.command(t, "report", "default/next", "--require", "requests>=1000,callers>=20,endpoints>=10,newly-denied<=30%,newly-allowed<=1%")
	if code != 1 {
		t.Errorf("the report ends with %d, want 1", code)
	}
	says(t, text,
		"NOT MET  requests>=1000", "505 (1,400 more that both deny do not count)", "met      callers>=20        21", "NOT MET  endpoints>=10",
		"NOT MET  newly-denied<=30%  100% (500 of 500 requests that the live policy allows)",
		"newly denied   GET /orders/list", "newly allowed  POST /payroll/export")
}

// word is a made-up word.
func word(i int) string {
	return strings.Repeat(string(rune('a'+i%26)), 2+i/26%3) + string(rune('k'+i/78%16))
}

// TestOverloadIsNoEvidence: of 3,000 requests at once, an experiment that takes its time is compared with a part.
// No request is forgotten, and nothing is ready that left out so many.
func TestOverloadIsNoEvidence(t *testing.T) {
	t.Parallel()
	p := previews(t, ordersRules, slowRules, "--preview-queue", "50")
	var all []question
	for i := range 3000 {
		all = append(all, question{method: "GET", path: fmt.Sprintf("/orders/%d", 1000+i), service: fmt.Sprint("web-", i%20)})
	}
	p.asks(t, all)
	type overloaded struct {
		RequestCount, DroppedCount json.Number
		Drops                      []struct{ Reason string }
	}
	r, _ := pollReport(t, p, policies+"/default/experiments/next", "3,000 requests are accounted for, and none waits", func(r overloaded) bool {
		for _, d := range r.Drops {
			if d.Reason == "waiting" {
				return false
			}
		}
		compared, _ := r.RequestCount.Int64()
		dropped, _ := r.DroppedCount.Int64()
		return compared+dropped == 3000
	})
	if dropped, _ := r.DroppedCount.Int64(); dropped < 300 {
		t.Fatalf("%d requests were not compared: that is no overload", dropped)
	}
	text, code := p.command(t, "report", "default/next", "--require", "newly-denied<=90%,newly-allowed<=90%,failed<=90%")
	if code != 1 {
		t.Errorf("the report ends with %d, want 1", code)
	}
	says(t, text, "were not compared")
	if strings.Contains(text, "Ready") {
		t.Errorf("it says that it is ready:\n%s", text)
	}
}
