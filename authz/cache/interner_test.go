package cache

import (
	"fmt"
	"testing"

	"understudy/authz"
)

// TestFormsDistinguishDecisions: two decisions of one form are equal.
func TestFormsDistinguishDecisions(t *testing.T) {
	plain := func(rule, reason string) authz.Decision {
		return authz.Decision{Rule: rule, Reason: reason, Plain: true, Value: false}
	}
	for name, pair := range map[string][2]authz.Decision{
		"where a text ends":     {plain("a\x00b", "c"), plain("a", "b\x00c")},
		"rule and reason":       {plain("a", ""), plain("", "a")},
		"bytes that are no UTF": {plain("\xff", ""), plain("\xfe", "")},
		"the effect":            {{Plain: true, Value: true}, {Effect: authz.Allow, Plain: true, Value: true}},
		"the value":             {{Plain: true, Value: true}, {Plain: true, Value: false}},
		"the status":            {{HTTPStatus: 401}, {HTTPStatus: 402}},
		"labels, which an earlier rule gave": {
			{Plain: true, Value: false, Labels: []authz.Label{{Name: "user", Value: "a"}}}, {Plain: true, Value: false, Labels: []authz.Label{{Name: "user", Value: "b"}}},
		},
		"labels and none":     {{Plain: true, Value: false, Labels: []authz.Label{{Name: "user", Value: "a"}}}, {Plain: true, Value: false}},
		"labels were ignored": {{Plain: true, Value: false, LabelsIgnored: true}, {Plain: true, Value: false}},
		"headers":             {{Headers: []authz.Field{{Name: "a", Value: "b"}}}, {Headers: []authz.Field{{Name: "a", Value: "c"}}}},
	} {
		one, ok := canonical(pair[0])
		other, okToo := canonical(pair[1])
		if ok && okToo && one == other {
			t.Errorf("%s: both are %q", name, one)
		}
	}
}

// TestDecisionsThatDifferInLabelsShareTheirAnswer: what a front makes of one is there for
// all of them, and yet each is a decision of its own.
func TestDecisionsThatDifferInLabelsShareTheirAnswer(t *testing.T) {
	i := newInterner(1 << 30)
	keep := func(user, header string) *authz.Decision {
		d := authz.Decision{
			Effect: authz.Allow, Headers: []authz.Field{{Name: "x", Value: header}}, Labels: []authz.Label{{Name: "user", Value: user}},
			Value: map[string]any{"allowed": true, "labels": map[string]any{"user": user}},
		}
		form, ok := canonical(d)
		if !ok {
			t.Fatal("there is no form")
		}
		one, _ := i.intern(d, form)
		return one
	}
	ann, bob, again, other := keep("ann", "a"), keep("bob", "a"), keep("ann", "a"), keep("ann", "b")
	if ann.Rendering() == bob.Rendering() || ann.Rendering() == other.Rendering() || ann != again {
		t.Error("a rendering is not that of equal decisions alone")
	}
	if ann.Labels[0].Value != "ann" || bob.Labels[0].Value != "bob" {
		t.Errorf("the labels are %v and %v", ann.Labels, bob.Labels)
	}
	bob.Rendering().Store("made")
	if ann.Rendering().Load() != "made" || other.Rendering().Load() != nil {
		t.Errorf("there are %v and %v; want what was made of the first answer alone", ann.Rendering().Load(), other.Rendering().Load())
	}
	for n := range maxInterned + 10 { // after which no more are interned
		keep(fmt.Sprint(n), "a")
	}
	if d := keep("eve", "a"); d.Rendering().Load() != "made" || d.Labels[0].Value != "eve" {
		t.Errorf("got %v with %v", d.Labels, d.Rendering().Load())
	}
	if len(i.answers) != 2 || len(i.known) != maxInterned {
		t.Errorf("%d answers and %d decisions are held", len(i.answers), len(i.known))
	}
}
