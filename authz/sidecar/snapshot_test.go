package sidecar

import (
	"strings"
	"testing"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/testkit"
)

const web = authz.PolicyName("projects/p1/locations/l1/policies/web")

// allowing returns a policy of one module.
func allowing(etag, condition string) *adminpb.Policy {
	return &adminpb.Policy{
		Name: string(web), Etag: etag,
		Rules:   []*adminpb.PolicyRule{{RuleId: "main", Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
		Modules: map[string]string{"a.rego": "package envoy.authz\nallow if " + condition},
	}
}

func state(live *adminpb.Policy, experiments ...*adminpb.PolicyExperiment) authz.PolicyState {
	return authz.PolicyState{Policy: live, Experiments: experiments}
}

func trial(etag string, p *adminpb.Policy) *adminpb.PolicyExperiment {
	return &adminpb.PolicyExperiment{Name: string(web) + "/experiments/e", Etag: etag, Policy: p}
}

// TestNothingIsCompiledTwice applies changes that leave content as it was. What is committed
// is compiled by this process for the first time, and has the decisions that the experiment
// has made.
func TestNothingIsCompiledTwice(t *testing.T) {
	sidecar, _, _ := holding(t, allowing("0", "true"))
	apply := func(s *snapshot, st authz.PolicyState) (*snapshot, *entry) {
		next := sidecar.with(t.Context(), s, authz.Update{
			Cursor: authz.Cursor{Sequence: s.cursor.Sequence + 1}, Policies: map[authz.PolicyName]authz.PolicyState{web: st},
		})
		return next, next.policies[web]
	}
	const candidate = `input.x == "a"`
	s, begin := apply(&snapshot{}, state(allowing("1", "true"), trial("e1", allowing("", candidate))))
	testkit.Closed(t, "the candidate to be compiled", begin.experiments[0].Candidate.Ready())
	s, annotated := apply(s, state(allowing("2", "true"), trial("e2", allowing("", candidate))))
	if annotated.live.Policy != begin.live.Policy || annotated.experiments[0].Candidate != begin.experiments[0].Candidate {
		t.Error("equal content under another etag was compiled again")
	}
	if annotated.live.Etag != "2" || annotated.experiments[0].Etag != "e2" {
		t.Error("an etag is an old one")
	}
	s, committed := apply(s, state(allowing("3", candidate)))
	_, changed := apply(s, state(allowing("4", "input.x")))
	if changed.live.Policy == committed.live.Policy {
		t.Error("another content was not compiled")
	}
}

// TestLargePoliciesCompileAlike compiles one in the background, and one that does not
// compile.
func TestLargePoliciesCompileAlike(t *testing.T) {
	compiled := func(condition string) error {
		p := allowing("1", condition)
		p.Modules["large.rego"] = "package large\n# " + strings.Repeat("x", 64<<10)
		_, err := (&entry{}).compile(t.Context(), "p", p)
		return err
	}
	if err := compiled(`input.x == "a"`); err != nil {
		t.Error(err)
	}
	if err := compiled(`unknown(1)`); err == nil || !strings.Contains(err.Error(), "unknown") {
		t.Errorf("%v is the error, want one about unknown", err)
	}
}
