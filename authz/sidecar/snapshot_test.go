package sidecar

import (
	"strings"
	"testing"
	"time"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/cache"
	"understudy/rego"
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
	<-begin.experiments[0].Candidate.Ready()
	s, annotated := apply(s, state(allowing("2", "true"), trial("e2", allowing("", candidate))))
	if annotated.live.Policy != begin.live.Policy || annotated.experiments[0].Candidate != begin.experiments[0].Candidate {
		t.Error("equal content under another etag was compiled again")
	}
	if annotated.live.Etag != "2" || annotated.experiments[0].Etag != "e2" {
		t.Error("an etag is an old one")
	}
	begin.experiments[0].Candidate.Cache().Keep(projected("a"), authz.Decision{Reason: "known"}.WithValidUntil(authz.Forever))
	s, committed := apply(s, state(allowing("3", candidate)))
	if d, outcome := committed.live.Policy.Find(projected("a")); outcome != cache.Hit || d.Reason != "known" {
		t.Errorf("of a committed experiment, %+v is cached, want what it has decided", d)
	}
	_, changed := apply(s, state(allowing("4", "input.x")))
	if changed.live.Policy == committed.live.Policy {
		t.Error("another content was not compiled")
	}
}

// keyed is a projection that is its own key.
type keyed string

func (k keyed) Key(_ *authz.ReadSet, _ time.Time, b []byte) ([]byte, bool) {
	return append(b, k...), true
}

func (k keyed) Input(*authz.Reading, *authz.ReadSet) (rego.Input, error) {
	return rego.NewInput(map[string]any{"x": string(k)})
}

// projected is a request of which policies read one text.
func projected(x string) *authz.Request {
	r := documentRequest(map[string]any{"x": x}, time.Unix(1, 0))
	r.Projector = keyed(x)
	return r
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
