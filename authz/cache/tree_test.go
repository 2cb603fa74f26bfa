package cache

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/testkit"
	"understudy/rego"
)

// branching is a policy whose evaluations ask for many things, in an order that depends on the answers.
const branching = `package envoy.authz

default allow := false

allow if {
	input.a == "1"
	startswith(input.b, "x")
	not input.c in ["u", "v"]
}

allow if {
	input.a != input.b
	some role in input.roles
	data.grants[role][_] == input.c
}

allow := false if {
	input.a == "2"
	input.d > input.e
	input.d < time.now_ns() / 1000000000
	false
}

allow if input.f == data.grants.admin[0]
`

// treeOf returns the policy with a cache of some bytes.
func treeOf(t testing.TB, bytes uint64) *Policy {
	t.Helper()
	grants, err := structpb.NewStruct(map[string]any{"grants": map[string]any{"admin": []any{"u", "w"}, "user": []any{"v"}}})
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := authz.Compile(t.Context(), &adminpb.Policy{
		Rules:   []*adminpb.PolicyRule{{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
		Modules: map[string]string{"a.rego": branching}, Data: grants,
	})
	if err != nil {
		t.Fatal(err)
	}
	if !compiled.Recordable() {
		t.Fatal("the policy is not evaluated by ours")
	}
	p := NewPolicy(compiled)
	if p.tree, err = newTree(bytes); err != nil {
		t.Fatal(err)
	}
	p.Contradicted = func(c *Contradiction) { t.Error(c) }
	return p
}

// someRequest is a request with values of which many are asked for.
func someRequest(r *rand.Rand) *authz.Request {
	document := map[string]any{}
	pick := func(values ...any) any { return values[r.IntN(len(values))] }
	for _, name := range []string{"a", "b", "c", "f"} {
		if r.IntN(5) > 0 {
			document[name] = pick("1", "2", "x", "xy", "u", "v", "w", 1, nil)
		}
	}
	for _, name := range []string{"d", "e"} {
		document[name] = pick(0, 1_699_999_999, 1_700_000_000, 1_700_000_001, 1.5, "1")
	}
	document["roles"] = pick([]any{}, []any{"admin"}, []any{"user", "admin"}, []any{"user", 1}, "admin", nil, map[string]any{"x": "admin"})
	parts := func(*authz.ReadBudget) (rego.Request, error) {
		input, err := rego.NewInput(document)
		return rego.RequestOf(input), err
	}
	return &authz.Request{
		Operation: authz.OperationCheck, Time: time.Unix(1_700_000_000+int64(r.IntN(3))-1, int64(r.IntN(2))), Parts: parts,
		Source: func(*authz.ReadBudget) (rego.Input, error) { return rego.NewInput(document) },
	}
}

// TestTheTreeDecidesAsThePolicy, whatever it has evicted, and anyone else who inserts at the same time.
func TestTheTreeDecidesAsThePolicy(t *testing.T) {
	for _, bytes := range []uint64{600, 3000, 20_000, 10 << 20} {
		t.Run(fmt.Sprint(bytes), func(t *testing.T) {
			t.Parallel()
			p := treeOf(t, bytes)
			var all sync.WaitGroup
			hits := [2]int{}
			for n := range hits {
				all.Go(func() {
					r := rand.New(rand.NewPCG(bytes, uint64(n)))
					for range testkit.Cases(4000) {
						request := someRequest(r)
						want := p.compiled.Decide(t.Context(), request, authz.Conditions{Plain: true})
						found, outcome := p.Find(t.Context(), request)
						if outcome == Hit {
							hits[n]++
						} else {
							found = p.Evaluate(t.Context(), request, authz.Conditions{})
						}
						if !authz.SameDecision(found, want) {
							t.Errorf("%v: got %+v, want %+v", outcome, found, want)
							return
						}
					}
				})
			}
			all.Wait()
			if hits[0]+hits[1] == 0 && bytes > 3000 {
				t.Error("nothing was found")
			}
			p.tree.stretches.CleanUp()
			if took := p.tree.stretches.WeightedSize(); took > bytes {
				t.Errorf("it takes %d bytes, want at most %d", took, bytes)
			}
			t.Logf("%v hits of %d", hits, 2*testkit.Cases(4000))
		})
	}
}

// TestARecordIsInsertedOnce: what comes again changes nothing, and what was evicted finds what is below it.
func TestARecordIsInsertedOnce(t *testing.T) {
	p := treeOf(t, 10<<20)
	r := rand.New(rand.NewPCG(1, 2))
	var requests []*authz.Request
	for range 300 {
		requests = append(requests, someRequest(r))
		p.Evaluate(t.Context(), requests[len(requests)-1], authz.Conditions{})
	}
	size := func() int { p.tree.stretches.CleanUp(); return p.tree.stretches.EstimatedSize() }
	before := size()
	for _, request := range requests {
		p.Evaluate(t.Context(), request, authz.Conditions{})
	}
	if after := size(); after != before {
		t.Errorf("%d stretches, and %d after the same requests came again", before, after)
	}
	p.tree.stretches.Invalidate(root)
	p.Evaluate(t.Context(), requests[0], authz.Conditions{})
	p.Evaluate(t.Context(), requests[1], authz.Conditions{})
	found := 0
	for _, request := range requests {
		if _, outcome := p.Find(t.Context(), request); outcome == Hit {
			found++
		}
	}
	if found < len(requests)/10 {
		t.Errorf("after the root was evicted and came back, %d of %d are found", found, len(requests))
	}
}

// recordOf evaluates a request, and returns a copy of its record.
func recordOf(t *testing.T, p *Policy, request *authz.Request) (record []rego.Entry, d authz.Decision) {
	t.Helper()
	c := authz.Conditions{Learned: func(r rego.Record, decided authz.Decision) authz.Decision {
		record, d = slices.Clone(r.Entries), decided
		return decided
	}}
	p.compiled.Decide(t.Context(), request, c)
	return record, d
}

// TestContradictionsEndTheTree: two evaluations with the same answers that went on differently are not what
// the tree rests on.
func TestContradictionsEndTheTree(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	p := treeOf(t, 10<<20)
	record, d := recordOf(t, p, someRequest(r))
	for range 100 {
		if len(record) >= 4 {
			break
		}
		record, d = recordOf(t, p, someRequest(r))
	}
	other := d
	other.Reason = "another"
	swapped := slices.Clone(record)
	swapped[1], swapped[2] = swapped[2], swapped[1]
	for name, second := range map[string]struct {
		record []rego.Entry
		d      *authz.Decision
	}{
		"another question":        {swapped, &d},
		"a decision too early":    {record[:2], &d},
		"a question too much":     {append(slices.Clone(record), record[0]), &d},
		"another decision":        {record, &other},
		"nothing where was much":  {nil, &d},
		"a decision at the other": {append(slices.Clone(record[:1]), swapped[1]), &d},
	} {
		t.Run(name, func(t *testing.T) {
			tree, err := newTree(1 << 20)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tree.keep(record, &d, false, 0); err != nil {
				t.Fatal(err)
			}
			_, err = tree.keep(second.record, second.d, false, 0)
			if _, ok := errors.AsType[*Contradiction](err); !ok || !tree.closed.Load() || tree.stretches.EstimatedSize() != 0 {
				t.Fatalf("the error is %v, the tree is closed: %v", err, tree.closed.Load())
			}
			if text := err.Error(); strings.Contains(text, "%!") || !strings.Contains(text, "with ") {
				t.Errorf("it says %q", text)
			}
		})
	}
}

// TestAContradictionDistrustsThePolicy: OPA decides from there on, and who is to know is called once.
func TestAContradictionDistrustsThePolicy(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	p := treeOf(t, 10<<20)
	called := 0
	p.Contradicted = func(*Contradiction) { called++ }
	request := someRequest(r)
	record, d := recordOf(t, p, request)
	wrong := d
	wrong.Reason = "another"
	if _, err := p.tree.keep(record, &wrong, false, 0); err != nil {
		t.Fatal(err)
	}
	if got := p.Evaluate(t.Context(), request, authz.Conditions{}); !authz.SameDecision(got, d) {
		t.Errorf("got %+v, want %+v", got, d)
	}
	if _, outcome := p.Find(t.Context(), request); outcome != NotCached || called != 1 || !p.compiled.Distrusted() {
		t.Errorf("the outcome is %v, %d were called, the policy is distrusted: %v", outcome, called, p.compiled.Distrusted())
	}
}
