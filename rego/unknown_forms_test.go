package rego_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"understudy/rego"
	"understudy/rego/evaluator"
)

// unknownForms are modules with a form that the evaluator does not know. It evaluates requests with the method GET,
// and leaves those with the method PUT to OPA.
var unknownForms = map[string]string{
	"with, behind a condition": `allow if input.m == "GET"
allow if { input.m == "PUT"; input.x == 1 with input.x as 1 }`,
	"with, in an else": `allow if input.m == "GET" else if { input.m == "PUT"; data.a with data.a as 1 }`,
	"with, in a rule": `other if { input.x == 1 with input.x as 1 }
allow if input.m == "GET"
allow if { input.m == "PUT"; other }`,
	"with, in a function": `f(x) if { x == 1 with input.x as 1 }
allow if input.m == "GET"
allow if { input.m == "PUT"; f(1) }`,
	"with, in a comprehension": `allow if input.m == "GET"
allow if { input.m == "PUT"; count([1 | input.x == 1 with input.x as 1]) == 1 }`,
	"with, negated": `allow if input.m == "GET"
allow if { input.m == "PUT"; not input.x == 2 with input.x as 1 }`,
	"a number by chance": `allow if input.m == "GET"
allow if { input.m == "PUT"; rand.intn("x", 1) == 0 }`,
	"a function with an expected value": `f(x) := 1 if x == 1 else := 2
allow if input.m == "GET"
allow if { input.m == "PUT"; f(1) == 1; f(2, 2) }`,
	"rules below a rule, of another kind": `a[x] := 1 if some x in ["b"]
a.c.d if true else := false
allow if input.m == "GET"
allow if { input.m == "PUT"; a.b == 1 }`,
}

// TestRequestsThatComeToAnUnknownFormAreLeftToOPA, and no others: the rest of the policy is evaluated, and its
// records are of use.
func TestRequestsThatComeToAnUnknownFormAreLeftToOPA(t *testing.T) {
	for name, module := range unknownForms {
		t.Run(name, func(t *testing.T) {
			p, err := rego.Compile(t.Context(), rego.Source{
				Modules: map[string]string{"p.rego": "package p\ndefault allow := false\n" + module}, Data: map[string]any{"a": false}, Paths: []string{"p/allow"},
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Interpreted("p/allow")) == 0 || !p.Evaluates("p/allow") {
				t.Fatalf("the forms are %v, evaluated: %v", p.Interpreted("p/allow"), p.Evaluates("p/allow"))
			}
			if causes := p.Causes("p/allow"); !slices.ContainsFunc(causes, func(c rego.Cause) bool { return c.Kind == rego.CauseInterpreted || c.Kind == rego.CauseImpure }) {
				t.Errorf("the causes are %v", causes)
			}
			for method, undecided := range map[string]bool{"GET": false, "PUT": true, "POST": false} {
				in, err := rego.NewInput(map[string]any{"m": method})
				if err != nil {
					t.Fatal(err)
				}
				asks := p.Ask(t.Context(), rego.RequestOf(in), time.Time{}, true)
				result, err := asks.Eval("p/allow")
				if errors.Is(err, evaluator.ErrUndecided) != undecided || asks.Record().Once != undecided {
					t.Errorf("%s: the error is %v, the record is of one request: %v", method, err, asks.Record().Once)
				}
				asks.End()
				decided, err := p.Eval(t.Context(), "p/allow", in, time.Time{})
				if err != nil || decided.Value != (method != "POST") || !undecided && decided.Value != result.Value {
					t.Errorf("%s: the decision is %v, with the error %v", method, decided.Value, err)
				}
			}
		})
	}
}
