// Package rehearsaltest has the policies and requests that the tests of the rehearsal's rooms share.
package rehearsaltest

import (
	"testing"
	"time"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/rego"
)

// Request is a request of which policies read one document, by shortcut as well as
// whole.
func Request(document map[string]any, now time.Time) *authz.Request {
	return &authz.Request{
		ID: "id", Operation: authz.OperationCheck, Time: now, Parts: PartsOf(document),
		Source: func(*authz.ReadBudget) (rego.Input, error) { return rego.NewInput(document) },
	}
}

// PartsOf makes the parts of a request of a document.
func PartsOf(document map[string]any) func(*authz.ReadBudget) (rego.Request, error) {
	return func(*authz.ReadBudget) (rego.Request, error) {
		input, err := rego.NewInput(document)
		return rego.RequestOf(input), err
	}
}

// Allowing returns a policy that allows on a condition.
func Allowing(condition string) *adminpb.Policy {
	return &adminpb.Policy{
		Rules:   []*adminpb.PolicyRule{{RuleId: "main", Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
		Modules: map[string]string{"a.rego": "package envoy.authz\nallow if " + condition},
	}
}

// Packed is a policy as a live version has it.
func Packed(t testing.TB, p *adminpb.Policy) *authz.Packed {
	t.Helper()
	out, err := authz.Pack(p)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Module returns a policy of one module.
func Module(text string) *adminpb.Policy {
	p := Allowing("true")
	p.Modules["a.rego"] = "package envoy.authz\n\n" + text
	return p
}

// ItemsLive and ItemsCandidate differ in a literal and in a rule, in this order.
var (
	ItemsLive = Module(`default allow := false

allow if {
	input.method == "GET"
	input.x == "a"
}
`)
	ItemsCandidate = Module(`default allow := false

allow if {
	input.method == "GET"
	input.x == "b"
}

allow if {
	input.method == "DELETE"
	input.x == "root"
}
`)
)
