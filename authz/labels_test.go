package authz_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"understudy/authz"
)

// user is one label.
func user(name string) []authz.Label { return []authz.Label{{Name: "user", Value: name}} }

func TestLabels(t *testing.T) {
	long := strings.Repeat("x", 128)
	for _, c := range []struct {
		name, labels string
		want         []authz.Label
		ignored      bool
	}{
		{"two", `{"user": "ann", "tenant": "acme"}`, []authz.Label{{Name: "tenant", Value: "acme"}, {Name: "user", Value: "ann"}}, false},
		{"none", `{}`, nil, false},
		{"as long as they may be", fmt.Sprintf(`{"user": %q}`, long), user(long), false},
		{"one of two is no string", `{"user": "ann", "tenant": 7}`, user("ann"), true},
		{"one of two is too long", fmt.Sprintf(`{"user": "ann", "tenant": %q}`, long+"x"), user("ann"), true},
		{"one of two has no name", `{"user": "ann", "": "x"}`, user("ann"), true},
		{"a name is no name", `{"a b": "x", "ü": "x", "` + strings.Repeat("n", 65) + `": "x"}`, nil, true},
		{"eight", `{s: s | some s in ["a","b","c","d","e","f","g","h"]}`, eight(), false},
		{"nine", `{s: s | some s in ["a","b","c","d","e","f","g","h","i"]}`, nil, true},
		{"an array", `["ann"]`, nil, true},
		{"a string", `"ann"`, nil, true},
		{"null", `null`, nil, true},
		{"what would break a line", `{"user": "a\nb\u202e"}`, user("a\uFFFDb\uFFFD"), false},
		{"what is no UTF-8", `{"user": base64.decode("/w==")}`, user("\uFFFD"), false},
		{"what is too long on one line", fmt.Sprintf(`{"user": %q}`, strings.Repeat("\n", 128)), nil, true},
	} {
		for _, allowed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, allowed=%v", c.name, allowed), func(t *testing.T) {
				d := decide(t, fmt.Sprintf("package envoy.authz\nallow := {\"allowed\": %v, \"labels\": %s}", allowed, c.labels))
				if d.Failure != "" || (d.Effect == authz.Allow) != allowed {
					t.Errorf("the decision is %s %s, want that of the policy", d.Result(), d.Reason)
				}
				if diff := cmp.Diff(c.want, d.Labels); diff != "" || d.LabelsIgnored != c.ignored {
					t.Errorf("ignored is %v, want %v; the labels (-want +got):\n%s", d.LabelsIgnored, c.ignored, diff)
				}
			})
		}
	}
}

func eight() (out []authz.Label) {
	for _, name := range strings.Split("abcdefgh", "") {
		out = append(out, authz.Label{Name: name, Value: name})
	}
	return out
}

// TestLabelsOfAChain: all rules that were asked have a say, and the later one the last.
func TestLabelsOfAChain(t *testing.T) {
	const module = `
yes := true
no := false
ann := {"allowed": true, "labels": {"user": "ann", "tenant": "acme"}}
bob := {"allowed": true, "labels": {"user": "bob", "zone": "z"}}
denies := {"allowed": false, "labels": {"user": "eve"}}
wrong := {"allowed": true, "labels": "x"}
many := {"allowed": true, "labels": {s: s | some s in ["a","b","c","d","e","f","g"]}}
fails if input.nothing
`
	tenant := authz.Label{Name: "tenant", Value: "acme"}
	for _, c := range []struct {
		rules   string
		want    []authz.Label
		ignored bool
	}{
		{"yes", nil, false},
		{"ann yes", []authz.Label{tenant, {Name: "user", Value: "ann"}}, false},
		{"yes ann", []authz.Label{tenant, {Name: "user", Value: "ann"}}, false},
		{"ann bob", []authz.Label{tenant, {Name: "user", Value: "bob"}, {Name: "zone", Value: "z"}}, false},
		{"ann no", []authz.Label{tenant, {Name: "user", Value: "ann"}}, false},
		{"ann denies", []authz.Label{tenant, {Name: "user", Value: "eve"}}, false},
		{"denies ann", user("eve"), false},
		{"ann fails", []authz.Label{tenant, {Name: "user", Value: "ann"}}, false},
		{"ann wrong", []authz.Label{tenant, {Name: "user", Value: "ann"}}, true},
		{"wrong ann no", []authz.Label{tenant, {Name: "user", Value: "ann"}}, true},
		{"ann many", append(eight()[:7], tenant), true},
	} {
		t.Run(c.rules, func(t *testing.T) {
			p, err := authz.Compile(t.Context(), chain(module, strings.Fields(c.rules)...))
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // what the policy returns is shared
				d := p.Decide(t.Context(), request("GET", nil), authz.Conditions{})
				if diff := cmp.Diff(c.want, d.Labels); diff != "" || d.LabelsIgnored != c.ignored {
					t.Errorf("ignored is %v, want %v; the labels (-want +got):\n%s", d.LabelsIgnored, c.ignored, diff)
				}
			}
		})
	}
}

func TestLabelsAreNotCompared(t *testing.T) {
	live, experiment := authz.Decision{Effect: authz.Allow, Labels: user("ann")}, authz.Decision{Effect: authz.Allow, Labels: user("bob"), LabelsIgnored: true}
	if got := authz.Compare(live, experiment); got != authz.Unchanged {
		t.Errorf("the difference is %s, want UNCHANGED", got)
	}
	if got := authz.Changed(live, experiment); got != nil {
		t.Errorf("%q is changed, want nothing", got)
	}
	if authz.SameDecision(live, experiment) {
		t.Error("a shortcut that gives other labels is not noticed")
	}
}

func TestLabelsAreThoseOfTheLivePolicyIfItHasAny(t *testing.T) {
	ann, bob, none := authz.Decision{Labels: user("ann")}, authz.Decision{Labels: user("bob")}, authz.Decision{}
	for _, c := range []struct {
		live, experiment authz.Decision
		want             []authz.Label
	}{{ann, bob, user("ann")}, {ann, none, user("ann")}, {none, bob, user("bob")}, {none, none, nil}} {
		if diff := cmp.Diff(c.want, authz.LabelsOf(c.live, c.experiment)); diff != "" {
			t.Error(diff)
		}
	}
}
