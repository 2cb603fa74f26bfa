package cache

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/rego"
)

// TestLeavesNameWhatWasLearned: requests of one leaf gave the same answers, those of two did not, and a leaf is
// the same whether the decision was made, was found, or its stretch was split in between.
func TestLeavesNameWhatWasLearned(t *testing.T) {
	p, r := treeOf(t, 10<<20), rand.New(rand.NewPCG(5, 6))
	records := make(map[authz.Leaf]string)
	leaves := make(map[string]authz.Leaf)
	var requests []*authz.Request
	var made []authz.Leaf
	for range 400 {
		request := someRequest(r)
		record, _ := recordOf(t, p, request)
		d := p.Evaluate(t.Context(), request, authz.Conditions{})
		leaf, answers := d.Leaf(), answersOf(record)
		if leaf == (authz.Leaf{}) {
			t.Fatalf("%v has no leaf", d)
		}
		if known, ok := records[leaf]; ok && known != answers {
			t.Fatal("two records have one leaf")
		}
		if known, ok := leaves[answers]; ok && known != leaf {
			t.Fatal("one record has two leaves")
		}
		records[leaf], leaves[answers] = answers, leaf
		requests, made = append(requests, request), append(made, leaf)
	}
	for i, request := range requests {
		d, outcome := p.Find(t.Context(), request)
		if outcome != Hit || d.Leaf() != made[i] {
			t.Errorf("request %d: outcome %v, leaf %x; want %x", i, outcome, d.Leaf(), made[i])
		}
	}
	if len(leaves) < 10 {
		t.Errorf("there are only %d leaves", len(leaves))
	}
}

// TestAPolicyThatAsksNothingHasALeaf, as one that allows everything: all of its requests are alike.
func TestAPolicyThatAsksNothingHasALeaf(t *testing.T) {
	compiled, err := authz.Compile(t.Context(), &adminpb.Policy{
		Rules:   []*adminpb.PolicyRule{{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
		Modules: map[string]string{"allow.rego": "package envoy.authz\nallow := true"},
	})
	if err != nil {
		t.Fatal(err)
	}
	p := NewPolicy(compiled)
	if err := p.SetSize(100); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(9, 10))
	made := p.Evaluate(t.Context(), someRequest(r), authz.Conditions{}).Leaf()
	d, outcome := p.Find(t.Context(), someRequest(r))
	if made == (authz.Leaf{}) || outcome != Hit || d.Leaf() != made {
		t.Errorf("one request has the leaf %x, another %x, which was found: %v; want one leaf, which is not zero", made, d.Leaf(), outcome)
	}
}

// answersOf is a text that two records have only if they have the same answers.
func answersOf(record []rego.Entry) string {
	var b strings.Builder
	for _, e := range record {
		fmt.Fprintf(&b, "%s %x\n", e.Question, e.Answer)
	}
	return b.String()
}

// TestTheTreeIsBoundedInBytes: who is echoed in decisions must not be able to fill the memory of the sidecar
// by sending long headers.
func TestTheTreeIsBoundedInBytes(t *testing.T) {
	const bytes = 256 << 10
	p := treeOf(t, bytes)
	record, _ := recordOf(t, p, someRequest(rand.New(rand.NewPCG(7, 8))))
	last := len(record) - 1
	for i := range uint64(1000) {
		other := append(record[:last:last], rego.Entry{Question: record[last].Question, Answer: rego.Answer{i, 77}})
		d := authz.Decision{Effect: authz.Allow, Headers: []authz.Field{{Name: "x", Value: strings.Repeat("x", 10<<10)}}}
		if _, err := p.tree.keep(other, &d, false, 10<<10); err != nil {
			t.Fatal(err)
		}
	}
	p.tree.stretches.CleanUp()
	kept := 0
	for _, s := range p.tree.stretches.All() {
		if s.decision != nil {
			kept += len(s.decision.Headers[0].Value)
		}
	}
	if kept == 0 || kept > bytes {
		t.Errorf("decisions of %d bytes are kept, want some and at most %d", kept, bytes)
	}
}
