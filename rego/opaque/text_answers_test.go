package opaque_test

import (
	"fmt"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"understudy/cmd/testkit"
	"understudy/rego/opaque"
)

// answerBytes is the size of the caches of answers in these tests, in bytes.
const answerBytes = 256 << 10

// textAsker asks about texts, each of which is a request, at a moment.
type textAsker struct {
	vocabulary *opaque.Vocabulary
	question   *opaque.Question
	// calls is how often the text was read by a function.
	calls int
}

// newTextAsker has a question about what a function makes of the text. Until is that of a function that reads the clock.
func newTextAsker(t *testing.T, until func(topdown.BuiltinContext, []*ast.Term) int64) *textAsker {
	t.Helper()
	a := &textAsker{vocabulary: opaque.NewVocabulary()}
	a.vocabulary.SetAnswerCache(answerBytes)
	f := &opaque.Function{Name: "read", Arity: 1, Costly: true, Clock: until != nil, Until: until}
	f.Call = func(b topdown.BuiltinContext, operands []*ast.Term, collect func(*ast.Term) error) error {
		a.calls++
		if b.Time != nil {
			return collect(b.Time)
		}
		return collect(operands[0])
	}
	e := a.vocabulary.Begin(request("first"), topdown.BuiltinContext{}, 1, true)
	defer e.End()
	force(t, e, derive(t, e, f, at(t, a.vocabulary, e, "x")))
	a.question = e.Record().Entries[0].Question
	a.calls = 0
	return a
}

func request(text string) opaque.Document {
	return opaque.Document{Root: ast.NewObject([2]*ast.Term{ast.StringTerm("x"), ast.StringTerm(text)})}
}

func (a *textAsker) answer(t *testing.T, text string, now int64) opaque.Answer {
	t.Helper()
	e := a.vocabulary.Begin(request(text), topdown.BuiltinContext{}, now, false)
	defer e.End()
	e.LookUp()
	answer, err := e.Answer(a.question)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// TestAnswersOfATextAreCached when it comes for the second time, for this text alone.
func TestAnswersOfATextAreCached(t *testing.T) {
	a := newTextAsker(t, nil)
	one := a.answer(t, "header.one", 1)
	for range 5 {
		if got := a.answer(t, "header.one", 1); got != one {
			t.Fatalf("the answer was %v and is %v", one, got)
		}
	}
	if a.calls != 2 {
		t.Errorf("the function was called %d times", a.calls)
	}
	for _, other := range []string{"header.on", "header.one ", "header.two", "Header.one", ""} {
		if a.answer(t, other, 1) == one {
			t.Errorf("%q has the answer of another text", other)
		}
	}
	if a.calls != 7 {
		t.Errorf("the function was called %d times", a.calls)
	}
}

// TestAnswersByTheClock are cached until they change, and not at all if that is not known.
func TestAnswersByTheClock(t *testing.T) {
	const end = 100
	a := newTextAsker(t, func(topdown.BuiltinContext, []*ast.Term) int64 { return end })
	for i, tt := range []struct {
		now   int64
		calls int
	}{{10, 1}, {20, 2}, {30, 2}, {99, 2}, {19, 3}, {50, 3}, {100, 4}, {99, 4}, {1000, 5}, {20, 5}} {
		a.answer(t, "text", tt.now)
		if a.calls != tt.calls {
			t.Errorf("look-up %d at %d: the function was called %d times, want %d", i, tt.now, a.calls, tt.calls)
		}
	}
	a = newTextAsker(t, func(topdown.BuiltinContext, []*ast.Term) int64 { return 0 })
	for range 3 {
		a.answer(t, "text", 10)
	}
	if texts, _ := opaque.CachedTexts(a.vocabulary); texts != 0 || a.calls != 3 {
		t.Errorf("%d texts are cached after %d calls", texts, a.calls)
	}
}

// TestManyTexts: texts that come once are not cached, those that come twice take no more memory than the cache may,
// and they do not evict one that comes often.
func TestManyTexts(t *testing.T) {
	a := newTextAsker(t, nil)
	many := testkit.Cases(100_000)
	for i := range many {
		a.answer(t, fmt.Sprint("once ", i), 1)
	}
	if texts, _ := opaque.CachedTexts(a.vocabulary); texts != 0 {
		t.Errorf("%d texts are cached that came once", texts)
	}
	misses := 0
	for i := range many {
		a.answer(t, fmt.Sprint("twice ", i), 1)
		a.answer(t, fmt.Sprint("twice ", i), 1)
		before := a.calls
		a.answer(t, "often", 1)
		misses += a.calls - before
	}
	texts, bytes := opaque.CachedTexts(a.vocabulary)
	if texts == 0 || bytes > answerBytes {
		t.Errorf("%d texts take %d bytes, %d are allowed", texts, bytes, answerBytes)
	}
	if misses > many/100+2 {
		t.Errorf("the text that comes often was missed %d times of %d", misses, many)
	}
}
