package cache_test

import (
	"fmt"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/cache"
	"understudy/authz/extauthz/checktest"
)

// clocks are rules that look at the clock, of which the headers exp, iat, date and claims have moments around
// epoch, or around midnight and the begin of an hour.
var clocks = map[string]string{
	"an expiry":                  `allow if exp > time.now_ns() / 1000000000`,
	"an expiry, in nanoseconds":  `allow if exp * 1000000000 > time.now_ns()`,
	"an expiry, divided twice":   `allow if exp > time.now_ns() / 1000000 / 1000`,
	"an expiry, rounded":         `allow if exp >= round(time.now_ns() / 1000000000)`,
	"an expiry with a leeway":    `allow if exp + 2 > (time.now_ns() / 1000000000) - 1`,
	"an age":                     `allow if (time.now_ns() / 1000000000) - iat < 3`,
	"two bounds":                 "allow if {\nnow := time.now_ns() / 1000000000\niat <= now\nnow < exp\n}",
	"claims":                     "c := json.unmarshal(h.claims)\nallow if { c.exp > time.now_ns() / 1000000000; c.nbf <= time.now_ns() / 1000000000 }",
	"a bound that is computed":   "bounds := [n | some text in split(h.all, \",\"); n := to_number(text)]\nallow if max(bounds) > time.now_ns() / 1000000000",
	"bounds one after the other": "allow if { some text in split(h.all, \",\"); n := to_number(text); d := abs((time.now_ns() / 1000000000) - n); d < 2 }",
	"each of some bounds":        "bounds := [to_number(text) | some text in split(h.all, \",\")]\nallow if { every n in bounds { n > time.now_ns() / 1000000000 } }",
	"a bound of a set":           "bounds := {to_number(text) | some text in split(h.all, \",\")}\nallow if { some n in bounds; n < time.now_ns() / 1000000000; not n + 2 < time.now_ns() / 1000000000 }",
	"a date in RFC 3339":         `allow if time.parse_rfc3339_ns(h.date) > time.now_ns()`,
	"a duration":                 "allow if time.now_ns() - time.parse_rfc3339_ns(h.date) < time.parse_duration_ns(\"2s\")",
	"seconds of the clock":       `allow if { [_, _, s] := time.clock(time.now_ns()); s % 4 < 2 }`,
	"business hours":             "allow if {\n[hour, minute, _] := time.clock([time.now_ns(), \"Europe/Berlin\"])\nhour >= 9\nhour < 17\nminute < 59\nnot time.weekday([time.now_ns(), \"Europe/Berlin\"]) in {\"Saturday\", \"Sunday\"}\n}",
	"a date":                     "allow if {\n[year, month, day] := time.date(time.now_ns())\nyear == 2023\nmonth == 11\nday >= 15\n}",
	"a difference":               "allow if {\n[_, _, _, _, _, seconds] := time.diff(time.now_ns(), exp * 1000000000)\nseconds < 3\n}",
	"the clock in a body":        "allow := {\"allowed\": exp > now, \"headers\": {\"x-late\": sprintf(\"%v\", [exp < now - 2])}}\nnow := time.now_ns() / 1000000000",
}

// clockHeader is what the rules use.
const clockHeader = `package envoy.authz
h := input.attributes.request.http.headers
exp := to_number(h.exp)
iat := to_number(h.iat)
`

// clockRequests have moments around a second.
func clockRequests(second int64) (out []*authv3.CheckRequest) {
	for _, shift := range []int64{-3, 0, 1} {
		exp, iat := second+shift, second-shift-2
		out = append(out, checktest.HTTP(&authv3.AttributeContext_HttpRequest{Method: "GET", Path: "/", Headers: map[string]string{
			"exp": fmt.Sprint(exp), "iat": fmt.Sprint(iat), "date": time.Unix(exp, 0).UTC().Format(time.RFC3339),
			"claims": fmt.Sprintf(`{"exp": %d, "nbf": %d}`, exp, iat), "all": fmt.Sprintf("%d,%d", iat, exp),
		}}))
	}
	return out
}

// passes are moments around a second, first forwards and then backwards, several times over.
func passes(second int64) (out []time.Time) {
	for _, direction := range []int{1, -1, 1} {
		for i := range 36 {
			half := time.Duration(direction*(i-18)) * 500 * time.Millisecond
			out = append(out, time.Unix(second, 0).Add(half), time.Unix(second, 0).Add(half+1))
		}
	}
	return out
}

// TestTheClockCrossesEachBound in both directions: what is kept of one moment is never the decision at another one
// that the policy decides differently, and no two evaluations contradict each other. Most decisions are found.
func TestTheClockCrossesEachBound(t *testing.T) {
	for name, rule := range clocks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compiled, err := authz.Compile(t.Context(), &adminpb.Policy{
				Rules:   []*adminpb.PolicyRule{{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
				Modules: map[string]string{"a.rego": clockHeader + rule + "\n"},
			})
			if err != nil {
				t.Fatal(err)
			}
			cached := cache.NewPolicy(compiled)
			cached.Contradicted = func(c *cache.Contradiction) { t.Error(c) }
			if err := cached.SetSize(10_000); err != nil || !cached.Caching() {
				t.Fatalf("the error is %v, caching is %v", err, cached.Caching())
			}
			effects, asked, found := map[authz.Effect]int{}, 0, 0
			// Of these three one is midnight in Berlin, and one nine o'clock on a Monday there.
			for _, second := range []int64{epoch, 1_700_002_800, 1_700_467_200} {
				for _, moment := range passes(second) {
					for _, message := range clockRequests(second) {
						r := requestOf(t, message, moment)
						asked++
						if _, outcome := cached.Find(t.Context(), r); outcome == cache.Hit {
							found++
						}
						got, want := cached.Decide(t.Context(), r, authz.Conditions{}), compiled.Decide(t.Context(), r, authz.Conditions{Plain: true})
						if !authz.SameDecision(got, want) {
							t.Fatalf("at %v: got %+v, OPA says %+v\n%v", moment.UTC(), got, want, message)
						}
						effects[got.Effect]++
					}
				}
			}
			if len(effects) < 2 || found < asked/2 {
				t.Errorf("the effects are %v; %d of %d decisions are found", effects, found, asked)
			}
			t.Logf("%v, %d of %d found", effects, found, asked)
		})
	}
}
