package cache

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"understudy/authz"
)

// fingerprint is the n-th of many.
func fingerprint(n uint64) (f authz.Fingerprint) {
	binary.LittleEndian.PutUint64(f[:], n)
	return f
}

// TestACacheIsBoundedInBytes: who is echoed in decisions must not be able to fill the
// memory of the sidecar by sending long headers.
func TestACacheIsBoundedInBytes(t *testing.T) {
	const size = 256
	c, err := New(nil, size)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 100<<10)
	now := time.Unix(1_700_000_000, 0)
	for i := range uint64(1000) {
		name := string(binary.AppendUvarint([]byte("n"), i))
		d := authz.Decision{Verdict: authz.Allow, Headers: []authz.Field{{Name: name, Value: long}}}
		if c.KeepAt(fingerprint(i), d.WithValidUntil(now.Add(time.Hour)), now).Rendering() != nil {
			t.Fatal("a large decision has a rendering, by which others would hold it")
		}
	}
	c.decisions.CleanUp()
	kept := 0
	for _, r := range c.decisions.All() {
		kept += len(r.decision.Headers[0].Value)
	}
	for _, d := range c.interned.known {
		kept += len(d.Headers[0].Value)
	}
	if limit := size * bytesPerDecision; kept > limit {
		t.Errorf("%d bytes are kept, want at most %d", kept, limit)
	}
	if kept == 0 {
		t.Error("nothing is kept")
	}
}

// TestADecisionIsFoundWhileItIsValid: from the moment at which it was made until, and
// without, the end of its validity.
func TestADecisionIsFoundWhileItIsValid(t *testing.T) {
	c, err := New(nil, 10)
	if err != nil {
		t.Fatal(err)
	}
	made := time.Unix(1_700_000_000, 0)
	c.KeepAt(fingerprint(1), authz.Decision{Verdict: authz.Allow}.WithValidUntil(made.Add(time.Minute)), made)
	for after, want := range map[time.Duration]bool{-1: false, 0: true, time.Minute - 1: true, time.Minute: false} {
		if _, got := c.FindAt(fingerprint(1), made.Add(after)); got != want {
			t.Errorf("after %s: found is %v, want %v", after, got, want)
		}
	}
	if _, found := c.FindAt(fingerprint(2), made); found {
		t.Error("a decision is found for another fingerprint")
	}
	for name, d := range map[string]authz.Decision{
		"not valid beyond its moment": authz.Decision{}.WithValidUntil(made),
		"of a failure to evaluate":    authz.Decision{Failure: authz.FailureDeadline}.WithValidUntil(authz.Forever),
	} {
		c.KeepAt(fingerprint(3), d, made)
		if _, found := c.FindAt(fingerprint(3), made); found {
			t.Errorf("a decision is kept that is %s", name)
		}
	}
}

// TestFormsDistinguishDecisions: two decisions of one form are equal.
func TestFormsDistinguishDecisions(t *testing.T) {
	plain := func(rule, reason string) authz.Decision {
		return authz.Decision{Rule: rule, Reason: reason, Plain: true, Value: false}
	}
	for name, pair := range map[string][2]authz.Decision{
		"where a text ends":     {plain("a\x00b", "c"), plain("a", "b\x00c")},
		"rule and reason":       {plain("a", ""), plain("", "a")},
		"bytes that are no UTF": {plain("\xff", ""), plain("\xfe", "")},
		"the verdict":           {{Plain: true, Value: true}, {Verdict: authz.Allow, Plain: true, Value: true}},
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
	c, err := New(nil, 10*maxInterned)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_700_000_000, 0)
	keep := func(n uint64, user, header string) authz.Decision {
		return c.KeepAt(fingerprint(n), authz.Decision{
			Verdict: authz.Allow, Headers: []authz.Field{{Name: "x", Value: header}}, Labels: []authz.Label{{Name: "user", Value: user}},
			Value: map[string]any{"allowed": true, "labels": map[string]any{"user": user}},
		}.WithValidUntil(authz.Forever), now)
	}
	ann, bob, again, other := keep(0, "ann", "a"), keep(1, "bob", "a"), keep(2, "ann", "a"), keep(3, "ann", "b")
	if ann.Rendering() == bob.Rendering() || ann.Rendering() == other.Rendering() || ann.Rendering() != again.Rendering() {
		t.Error("a rendering is not that of equal decisions alone")
	}
	if ann.Labels[0].Value != "ann" || bob.Labels[0].Value != "bob" {
		t.Errorf("the labels are %v and %v", ann.Labels, bob.Labels)
	}
	bob.Rendering().Store("made")
	if ann.Rendering().Load() != "made" || again.Rendering().Load() != "made" || other.Rendering().Load() != nil {
		t.Errorf("there are %v, %v and %v; want what was made of the first answer alone", ann.Rendering().Load(), again.Rendering().Load(), other.Rendering().Load())
	}
	for n := range uint64(maxInterned + 10) { // after which no more are interned
		keep(10+n, fmt.Sprint(n), "a")
	}
	if d := keep(9, "eve", "a"); d.Rendering().Load() != "made" || d.Labels[0].Value != "eve" {
		t.Errorf("got %v with %v", d.Labels, d.Rendering().Load())
	}
	if len(c.interned.answers) != 2 || len(c.interned.known) != maxInterned {
		t.Errorf("%d answers and %d decisions are held", len(c.interned.answers), len(c.interned.known))
	}
}
