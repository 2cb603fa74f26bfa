package opaque_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"understudy/cmd/testkit"
	"understudy/rego/opaque"
)

// bracketing makes values of the same scalars in the same order, which differ in where collections begin and end.
type bracketing struct {
	*rand.Rand
	scalars []*ast.Term
}

// take returns the next scalar; nil if there is none.
func (b *bracketing) take() *ast.Term {
	if len(b.scalars) == 0 {
		return nil
	}
	next := b.scalars[0]
	b.scalars = b.scalars[1:]
	return next
}

// value returns the next scalar, or a collection of some.
func (b *bracketing) value(depth int) *ast.Term {
	if depth > 3 || len(b.scalars) == 0 || b.IntN(2) == 0 {
		return b.take()
	}
	return b.collection(depth, b.IntN(4))
}

// collection returns a collection of at most some parts.
func (b *bracketing) collection(depth, parts int) *ast.Term {
	switch b.IntN(3) {
	case 0:
		return ast.ArrayTerm(b.parts(depth, parts)...)
	case 1:
		return ast.SetTerm(b.parts(depth, parts)...)
	}
	object := ast.NewObject()
	for range parts {
		key := b.take()
		value := b.value(depth + 1)
		if key == nil || value == nil {
			break
		}
		object.Insert(key, value)
	}
	return ast.NewTerm(object)
}

func (b *bracketing) parts(depth, n int) (out []*ast.Term) {
	for range n {
		if part := b.value(depth + 1); part != nil {
			out = append(out, part)
		}
	}
	return out
}

// scalarsOf returns scalars in Rego's order, many of which are written with the same characters.
func scalarsOf(r *rand.Rand) (out []*ast.Term) {
	all := []string{"null", "false", "true", "0", "1", "10", "11", `""`, `"0"`, `"1"`, `"a"`, `"aa"`, `"as"`, `"n"`, `"sa"`, `"t"`, "\"\u0001\"", "\"\u0001a\""}
	for _, text := range all {
		if r.IntN(2) == 0 {
			out = append(out, ast.MustParseTerm(text))
		}
	}
	return out
}

// TestValuesThatDifferHaveOtherAnswers: what stands for a content in a record differs if the contents do, if only in
// one length or one nesting.
func TestValuesThatDifferHaveOtherAnswers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	different := 0
	for range testkit.Cases(2000) {
		scalars := scalarsOf(r)
		answers := make(map[opaque.Answer]*ast.Term)
		for range 12 {
			b := &bracketing{r, scalars}
			content := b.collection(0, 1+len(scalars))
			answer := answerTo(t, content)
			if other := answers[answer]; other != nil && !other.Equal(content) {
				t.Fatalf("%v and %v have the same answer", content, other)
			}
			answers[answer] = content
		}
		different += len(answers)
	}
	if different < 3*testkit.Cases(2000) {
		t.Errorf("there are only %d different contents", different)
	}
}

// answerTo returns what stands for a content.
func answerTo(t *testing.T, content *ast.Term) opaque.Answer {
	t.Helper()
	v := opaque.NewVocabulary()
	e := v.Begin(opaque.Document{Root: ast.ObjectTerm(ast.Item(ast.StringTerm("x"), content)).Value}, topdown.BuiltinContext{}, now, true)
	defer e.End()
	force(t, e, at(t, v, e, "x"))
	entries := e.Record().Entries
	if len(entries) != 1 {
		t.Fatalf("%v: %d entries", content, len(entries))
	}
	return entries[0].Answer
}

// TestNamesOfCallersAreNotKept: objects with keys of their own share the derivations and questions of all.
func TestNamesOfCallersAreNotKept(t *testing.T) {
	v := opaque.NewVocabulary()
	ask := func(i int) {
		object := ast.NewObject()
		for j := range 10 {
			object.Insert(ast.StringTerm(fmt.Sprintf("x-%d-%d", i, j)), ast.IntNumberTerm(j))
		}
		e := v.Begin(opaque.Document{Root: ast.ObjectTerm(ast.Item(ast.StringTerm("x"), ast.NewTerm(object))).Value}, topdown.BuiltinContext{}, now, true)
		defer e.End()
		x := at(t, v, e, "x")
		keys, ok, err := e.Keys(x)
		if !ok || err != nil || len(keys) != 10 {
			t.Fatalf("%d keys, known: %v, error: %v", len(keys), ok, err)
		}
		for j, k := range keys {
			value, err := e.Entry(x, j, k)
			if err != nil || !isOpaque(value) {
				t.Fatalf("the value at %v is known, or has the error %v", k, err)
			}
			if truth, err := e.Ask(opaque.LessThan, value, opaque.Constant(ast.IntNumberTerm(5))); err != nil || (truth == opaque.Yes) != (j < 5) {
				t.Fatalf("the value at the key %d: %v, with the error %v", j, truth, err)
			}
		}
		if len(e.Record().Entries) != 11 || e.Record().Once {
			t.Fatalf("%d entries, once: %v", len(e.Record().Entries), e.Record().Once)
		}
	}
	ask(0)
	derivations, questions := opaque.Sizes(v)
	for i := range 1000 {
		ask(i)
	}
	if moreDerivations, moreQuestions := opaque.Sizes(v); moreDerivations != derivations || moreQuestions != questions {
		t.Errorf("%d derivations and %d questions, after one object %d and %d", moreDerivations, moreQuestions, derivations, questions)
	}
}

// TestUsualGoesThroughAValueOnce in an evaluation: functions are called with the same body again and again.
func TestUsualGoesThroughAValueOnce(t *testing.T) {
	v := opaque.NewVocabulary()
	numbers := make([]*ast.Term, 100)
	for i := range numbers {
		numbers[i] = ast.IntNumberTerm(i)
	}
	x := opaque.Computed(ast.ArrayTerm(numbers...))
	e := begin(v, "1")
	defer e.End()
	isUsual := func() bool {
		truth, err := e.Test(opaque.Usual, x)
		if err != nil {
			t.Fatal(err)
		}
		return truth == opaque.Yes
	}
	if !isUsual() {
		t.Fatal("the numbers are in their usual form, which is denied")
	}
	numbers[50].Value = ast.Number("1e0") // which no evaluation does: a second look would see it
	if !isUsual() {
		t.Error("it goes through the value a second time")
	}
	other := begin(v, "1")
	defer other.End()
	if truth, _ := other.Test(opaque.Usual, x); truth == opaque.Yes {
		t.Error("another evaluation believes the first one")
	}
}
