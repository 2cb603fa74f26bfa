package decisionrequest_test

import (
	"errors"
	"fmt"
	"testing"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/cache"
	"understudy/authz/rehearsal/decisionrequest"
	"understudy/authz/rehearsal/supervisor"
	"understudy/authz/rehearsal/supervisor/supervisortest"
	"understudy/authz/rehearsal/wire"
	"understudy/cmd/testkit"
)

// live returns a live policy of a name, compiled anew.
func live(t *testing.T, name string) *decisionrequest.Live {
	t.Helper()
	p := &adminpb.Policy{
		Rules:   []*adminpb.PolicyRule{{RuleId: "main", Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
		Modules: map[string]string{"a.rego": "package envoy.authz\nallow := true"},
	}
	compiled, err := authz.Compile(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	source, err := authz.Pack(p)
	if err != nil {
		t.Fatal(err)
	}
	return &decisionrequest.Live{Name: name, Policy: cache.NewPolicy(compiled), Source: source}
}

// TestWhatWaitsMayAskAgain when its live policy is replaced by another version, by others, or closed: who is told
// that is not kept waiting.
func TestWhatWaitsMayAskAgain(t *testing.T) {
	for name, replace := range map[string]func(*decisionrequest.LivePolicies){
		"another version": func(p *decisionrequest.LivePolicies) { p.Of(live(t, "first")) },
		"others": func(p *decisionrequest.LivePolicies) {
			for i := range 16 {
				p.Of(live(t, fmt.Sprint("other", i)))
			}
		},
		"closed": (*decisionrequest.LivePolicies).Close,
	} {
		t.Run(name, func(t *testing.T) {
			policies, first := decisionrequest.NewLivePolicies(supervisortest.New(t), 0), live(t, "first")
			told, held, hold := make(chan error, 1), make(chan struct{}), make(chan struct{})
			defer close(hold)
			err := policies.Of(first).Decide(supervisor.DecisionRequest{
				Prepare: func() (wire.DecisionRequest, bool) { close(held); <-hold; return wire.DecisionRequest{}, false },
				Done:    func(authz.Decision, error) {},
			})
			testkit.Closed(t, "the request to be held", held)
			waiting := supervisor.DecisionRequest{
				Prepare: func() (wire.DecisionRequest, bool) { return wire.DecisionRequest{}, false },
				Done: func(_ authz.Decision, err error) {
					policies.Of(first)
					told <- err
				},
			}
			if err := errors.Join(err, policies.Of(first).Decide(waiting)); err != nil {
				t.Fatal(err)
			}
			replace(policies)
			if err := testkit.Receive(t, "what the request is told", told); !errors.Is(err, supervisor.ErrChanged) {
				t.Errorf("it is told %v, want that the policy changed", err)
			}
		})
	}
}
