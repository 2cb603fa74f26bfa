package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"understudy/cmd/testkit"
)

// hostile are conditions that take all of the memory or the time that there is, or that
// ignore their cancellation. Some are refused, some fail to be evaluated, and some end the
// process that evaluates them: to live decisions it makes no difference.
var hostile = map[string]string{
	"a template": `strings.render_template("{{range .a}}{{range $.a}}{{range $.a}}xxxxxxxxxx{{end}}{{end}}{{end}}", {"a": numbers.range(1, 2000)}) != ""`,
	"copies by a patch": `{ d := {"a": numbers.range(1, 1000)}
		ops := [{"op": "copy", "from": "", "path": sprintf("/k%d", [i])} | some i in numbers.range(1, 60)]
		json.patch(d, ops) != {} }`,
	"paths in a clique": `{ n := numbers.range(1, 14)
		g := {sprintf("%d", [i]): [sprintf("%d", [j]) | some j in n; j != i] | some i in n}
		count(graph.reachable_paths(g, ["1"])) > 0 }`,
	"a long loop":       `count([1 | some i in numbers.range(1, 3000); some j in numbers.range(1, 3000); i + j < 0]) == 0`,
	"a repeated string": `{ s := concat("", [strings.reverse("0123456789") | some i in numbers.range(1, 100000)]); t := concat(s, [s | some i in numbers.range(1, 10000)]); count(t) > 0 }`,
	"nested arrays":     `count(json.unmarshal(concat("", ["[" | some i in numbers.range(1, 1000000)]))) >= 0`,
	"a huge range":      `count(numbers.range(1, 1000000000)) > 0`,
	"a walk":            `{ a := numbers.range(1, 300); d := {"x": [[[i, j] | some j in a] | some i in a]}; count([p | some p, _ in walk(d); some q, _ in walk(d)]) > 0 }`,
	"a regex": `{ s := concat("", ["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" | some i in numbers.range(1, 50000)])
		regex.match("^(a?){900}b$", s) }`,
	"deep comprehensions":   `{ ` + strings.Repeat("count([1 | ", 20) + "true" + strings.Repeat("]) >= 0", 20) + ` }`,
	"globs":                 `regex.globs_match("` + strings.Repeat("a*b*", 20) + `c", "` + strings.Repeat("[ab]*[ab]", 20) + `")`,
	"memory in small steps": `{ n := numbers.range(1, 3000); l := [[i, j, k] | some i in n; some j in n; some k in n]; count(l) > 0 }`,
	"doubled objects": `{ n := numbers.range(1, 2000); l := [{sprintf("%d", [i]): {sprintf("%d-%d", [i, j]): [i, j, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"] | some j in n}} | some i in n]
		count(object.union_n(l)) > 0 }`,
}

func init() {
	hostile["a module of megabytes"] = `count([` + strings.Repeat(`"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", `, 80_000) + `input.x]) > 0`
	hostile["recursion"] = `hostile with input.x as 1`
}

// hostileModule is a policy of one condition, which reads the request.
func hostileModule(condition string) map[string]any {
	return map[string]any{
		"rules":   []any{map[string]any{"rego": map[string]any{}}},
		"modules": map[string]string{"a.rego": "package envoy.authz\n\nallow if { input.attributes.request.http.method == \"GET\"\nhostile }\n\nhostile if " + condition + "\n"},
	}
}

func asText(t *testing.T, content any) string {
	t.Helper()
	text, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// sum adds the values of a metric's series that match a pattern.
func sum(page, series string) (total float64) {
	for _, m := range regexp.MustCompile(`(?m)^`+series+` (\S+)`).FindAllStringSubmatch(page, -1) {
		if n, err := strconv.ParseFloat(m[1], 64); err == nil {
			total += n
		}
	}
	return total
}

// asking sends live checks until it is ended, and counts those that were not allowed.
type asking struct {
	sync.WaitGroup
	done           atomic.Bool
	asked, refused atomic.Int64
}

func askUntilDone(t *testing.T, p *started) *asking {
	a := &asking{}
	request := plainCheck(t)
	for range 2 {
		a.Go(func() {
			// The rehearsal process goes last: who asked without a pause would leave it nothing.
			ticker := time.NewTicker(time.Millisecond)
			defer ticker.Stop()
			for !a.done.Load() {
				<-ticker.C
				answer, err := p.authz.Check(t.Context(), request)
				a.asked.Add(1)
				if err != nil || answer.GetStatus().GetCode() != int32(codes.OK) {
					a.refused.Add(1)
				}
			}
		})
	}
	return a
}

// TestNothingThatIsNotLiveTouchesLiveDecisions previews each of the hostile contents and
// gives it to the API with tests that evaluate it, while live checks go on: all of them are
// allowed, another experiment is compared as before, and the process ends when it is asked to.
func TestNothingThatIsNotLiveTouchesLiveDecisions(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "--location", "projects/p1/locations/l1", "--rehearsal-memory", fmt.Sprint(128<<20), "--preview-timeout", "300ms", "--require-passing-tests")
	live := map[string]any{
		"rules":   []any{map[string]any{"rego": map[string]any{}}},
		"modules": map[string]string{"a.rego": "package envoy.authz\n\nallow := true\n"},
	}
	p.must(t, "POST", policies+"?policyId=default", asText(t, live))
	experiments := policies + "/default/experiments"
	calm := map[string]any{"policy": map[string]any{
		"name":    strings.TrimPrefix(policies, "/v1/") + "/default",
		"rules":   live["rules"],
		"modules": map[string]string{"a.rego": "package envoy.authz\n\nallow if rand.intn(input.attributes.request.http.method, 2) >= 0\n"},
	}}
	p.must(t, "POST", experiments+"?policyExperimentId=calm", asText(t, calm))
	p.must(t, "POST", experiments+"/calm:startPreview", "{}")
	checks := askUntilDone(t, p)
	few := 2 // of them, by chance, where each takes long: with the race detector
	for name, condition := range hostile {
		if few--; testing.Short() && few < 0 {
			break
		}
		t.Run(name, func(t *testing.T) {
			content := hostileModule(condition)
			content["name"] = calm["policy"].(map[string]any)["name"]
			code, body := p.call(t, "admin", "POST", experiments+"?policyExperimentId=hostile", asText(t, map[string]any{"policy": content}))
			switch code {
			case http.StatusOK:
				p.rehearse(t, experiments)
			case http.StatusBadRequest:
			default:
				t.Errorf("the content is answered with %d: %s", code, body)
			}
			content["modules"].(map[string]string)["a_test.rego"] = "package envoy.authz_test\nimport data.envoy.authz\n" +
				"test_hostile if authz.allow with input as {\"attributes\": {\"request\": {\"http\": {\"method\": \"GET\"}}}}\n" +
				"test_fails if false\n"
			code, body = p.call(t, "admin", "POST", experiments+"?policyExperimentId=tested", asText(t, map[string]any{"policy": content}))
			if code != http.StatusBadRequest {
				t.Errorf("content whose tests are hostile is answered with %d: %s", code, body)
			}
			p.comparesOn(t)
		})
	}
	checks.done.Store(true)
	checks.Wait()
	if asked, refused := checks.asked.Load(), checks.refused.Load(); refused > 0 || asked == 0 {
		t.Errorf("%d of %d live checks were not allowed", refused, asked)
	}
	if t.Failed() {
		t.Log(p.log.String())
	}
	if err := p.process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.wait(); err != nil {
		t.Errorf("the process ends with %v", err)
	}
}

// must makes a call of the API that succeeds.
func (p *started) must(t *testing.T, method, path, body string) {
	t.Helper()
	if code, answer := p.call(t, "admin", method, path, body); code != http.StatusOK {
		t.Fatalf("%s %s is answered with %d: %s", method, path, code, answer)
	}
}

// rehearse previews the experiment hostile until a comparison has failed, or was dropped.
func (p *started) rehearse(t *testing.T, experiments string) {
	t.Helper()
	const outcome = `understudy_preview_(?:comparisons_total\{difference="FAILED"|dropped_total\{experiment="default/hostile").*\}`
	_, before := p.metricsPage(t, "")
	p.must(t, "POST", experiments+"/hostile:startPreview", "{}")
	p.until(t, "a comparison has failed or was dropped", func(page string) bool { return sum(page, outcome) > sum(before, outcome) })
	p.must(t, "DELETE", experiments+"/hostile", "")
}

// comparesOn waits until the calm experiment has been compared again.
func (p *started) comparesOn(t *testing.T) {
	t.Helper()
	const compared = `understudy_preview_comparisons_total\{difference="UNCHANGED",experiment="default/calm".*\}`
	_, before := p.metricsPage(t, "")
	p.until(t, "the calm experiment is compared again", func(page string) bool { return sum(page, compared) > sum(before, compared) })
}

// until waits until something holds of the metrics.
func (p *started) until(t *testing.T, what string, holds func(page string) bool) {
	t.Helper()
	var page string
	testkit.Await(t, what, func() bool {
		_, page = p.metricsPage(t, "")
		return holds(page)
	}, func() any { return page + "\n" + p.log.String() })
}
