package cache

import (
	"testing"
	"time"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/rego"
)

// TestWhatIsOfOneRequestIsNotKept: a decision made of all of the input, or of what the clock shows, is for
// its request alone.
func TestWhatIsOfOneRequestIsNotKept(t *testing.T) {
	for name, rule := range map[string]string{
		"the clock": `allow if time.weekday(time.now_ns()) == "Tuesday"`, "the input": `allow if json.marshal(input) == "{\"x\":1}"`,
	} {
		t.Run(name, func(t *testing.T) {
			compiled, err := authz.Compile(t.Context(), &adminpb.Policy{
				Rules:   []*adminpb.PolicyRule{{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
				Modules: map[string]string{"a.rego": "package envoy.authz\ndefault allow := false\n" + rule},
			})
			if err != nil || !compiled.Recordable() {
				t.Fatal("the policy is not evaluated by ours", err)
			}
			p := NewPolicy(compiled)
			if err := p.SetSize(100); err != nil {
				t.Fatal(err)
			}
			effects := map[authz.Effect]bool{}
			for i := range 14 {
				document := map[string]any{"x": i % 3}
				r := &authz.Request{
					Operation: authz.OperationCheck, Time: time.Unix(1_700_000_000, 0).AddDate(0, 0, i),
					Source: func(*authz.ReadBudget) (rego.Input, error) { return rego.NewInput(document) },
					Parts: func(*authz.ReadBudget) (rego.Request, error) {
						input, err := rego.NewInput(document)
						return rego.RequestOf(input), err
					},
				}
				got, want := p.Decide(t.Context(), r, authz.Conditions{}), compiled.Decide(t.Context(), r, authz.Conditions{Plain: true})
				if !authz.SameDecision(got, want) {
					t.Errorf("after %d requests: got %+v, want %+v", i, got, want)
				}
				effects[want.Effect] = true
			}
			if len(effects) < 2 {
				t.Error("the policy decides all requests alike")
			}
		})
	}
}
