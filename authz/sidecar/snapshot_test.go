package sidecar

import (
	"strings"
	"testing"

	adminpb "understudy/admin/v1"
	"understudy/authz"
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

// TestNothingIsCompiledTwice applies changes that leave content as it was.
func TestNothingIsCompiledTwice(t *testing.T) {
	apply := func(s *snapshot, st authz.PolicyState) (*snapshot, *entry) {
		next := s.with(t.Context(), authz.Update{
			Cursor: authz.Cursor{Sequence: s.cursor.Sequence + 1}, Policies: map[authz.PolicyName]authz.PolicyState{web: st},
		})
		return next, next.policies[web]
	}
	s, begin := apply(&snapshot{}, state(allowing("1", "true"), trial("e1", allowing("", "false"))))
	s, annotated := apply(s, state(allowing("2", "true"), trial("e2", allowing("", "false"))))
	if annotated.live.Policy != begin.live.Policy || annotated.experiments[0].Policy != begin.experiments[0].Policy {
		t.Error("equal content under another etag was compiled again")
	}
	if annotated.live.Etag != "2" || annotated.experiments[0].Etag != "e2" {
		t.Error("an etag is an old one")
	}
	s, committed := apply(s, state(allowing("3", "false")))
	if committed.live.Policy != begin.experiments[0].Policy {
		t.Error("the content of a committed experiment was compiled again")
	}
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
		_, err := (&entry{}).compile(t.Context(), "p", "1", p)
		return err
	}
	if err := compiled(`input.x == "a"`); err != nil {
		t.Error(err)
	}
	if err := compiled(`unknown(1)`); err == nil || !strings.Contains(err.Error(), "unknown") {
		t.Errorf("%v is the error, want one about unknown", err)
	}
}
