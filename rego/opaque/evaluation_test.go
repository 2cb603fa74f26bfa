package opaque_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"understudy/rego/opaque"
)

// manyOf returns an input with some numbers at x0, x1 and so on.
func manyOf(numbers ...int) opaque.Document {
	object := ast.NewObject()
	for i, n := range numbers {
		object.Insert(ast.StringTerm(fmt.Sprint("x", i)), ast.IntNumberTerm(n))
	}
	return opaque.Document{Root: object}
}

// force learns the content of a value.
func force(t *testing.T, e *opaque.Evaluation, v opaque.Value) *ast.Term {
	t.Helper()
	content, err := e.Force(v)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// derive returns what a function makes of values.
func derive(t *testing.T, e *opaque.Evaluation, f *opaque.Function, of ...opaque.Value) opaque.Value {
	t.Helper()
	v, err := e.Derive(f, of...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func isOpaque(v opaque.Value) bool {
	_, known := v.Known()
	return !known
}

// TestWhatIsOfOneRequest: records of all of the input, or of what the clock shows, are of no use for
// another, and those of a comparison with the clock are.
func TestWhatIsOfOneRequest(t *testing.T) {
	floor := function(ast.Floor.Name, 1, false)
	verify := function(ast.NowNanos.Name, 0, true)
	verify.Arity, verify.Call = 1, func(_ topdown.BuiltinContext, operands []*ast.Term, collect func(*ast.Term) error) error {
		return collect(operands[0])
	}
	less := opaque.Constant(ast.IntNumberTerm(5))
	for name, tt := range map[string]struct {
		learn func(*opaque.Vocabulary, *opaque.Evaluation)
		once  bool
	}{
		"a part":     {func(v *opaque.Vocabulary, e *opaque.Evaluation) { force(t, e, at(t, v, e, "x")) }, false},
		"everything": {func(v *opaque.Vocabulary, e *opaque.Evaluation) { force(t, e, rootOf(t, v, e)) }, true},
		"a comparison of everything": {func(v *opaque.Vocabulary, e *opaque.Evaluation) {
			_, _ = e.Ask(opaque.Equal, rootOf(t, v, e), less)
		}, true},
		"whether there is anything": {func(v *opaque.Vocabulary, e *opaque.Evaluation) { _, _ = e.Test(opaque.Holds, rootOf(t, v, e)) }, false},
		"the clock":                 {func(_ *opaque.Vocabulary, e *opaque.Evaluation) { force(t, e, clockOf(t, e, "")) }, true},
		"the clock, divided":        {func(_ *opaque.Vocabulary, e *opaque.Evaluation) { force(t, e, clockOf(t, e, "1000")) }, true},
		"made of the clock": {func(_ *opaque.Vocabulary, e *opaque.Evaluation) {
			force(t, e, derive(t, e, floor, clockOf(t, e, "1000")))
		}, true},
		"a comparison with the clock": {func(_ *opaque.Vocabulary, e *opaque.Evaluation) {
			_, _ = e.Ask(opaque.LessThan, less, clockOf(t, e, ""))
		}, false},
		"whether there is a clock": {func(_ *opaque.Vocabulary, e *opaque.Evaluation) { _, _ = e.Test(opaque.Present, clockOf(t, e, "")) }, false},
		"a function of a known value": {func(_ *opaque.Vocabulary, e *opaque.Evaluation) {
			derive(t, e, verify, opaque.Computed(ast.IntNumberTerm(5)))
		}, true},
		"a function of a constant": {func(_ *opaque.Vocabulary, e *opaque.Evaluation) {
			_, _ = e.Test(opaque.Holds, derive(t, e, verify, less))
		}, false},
		"an evaluation of another one": {func(_ *opaque.Vocabulary, e *opaque.Evaluation) { e.Abandon() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			v := opaque.NewVocabulary()
			e := begin(v, "1")
			defer e.End()
			uses := e.Uses()
			tt.learn(v, e)
			if e.Record().Once != tt.once {
				t.Errorf("once: %v", e.Record().Once)
			}
			if e.Uses() == uses && name != "an evaluation of another one" {
				t.Error("no use is counted")
			}
			e.End()
			if e = begin(v, "1"); e.Record().Once || len(e.Record().Entries) > 0 {
				t.Error("the next one begins with its record")
			}
		})
	}
}

// rootOf returns the whole input.
func rootOf(t *testing.T, v *opaque.Vocabulary, e *opaque.Evaluation) opaque.Value {
	t.Helper()
	path, _ := v.Input(nil)
	root, err := e.Input(path)
	if err != nil || !isOpaque(root) {
		t.Fatal("the root is known", err)
	}
	return root
}

// TestUses: every look at what another request may have otherwise is counted, and no look at a constant.
func TestUses(t *testing.T) {
	one, number := opaque.Constant(ast.IntNumberTerm(1)), opaque.Computed(ast.IntNumberTerm(2))
	for name, tt := range map[string]struct {
		look func(v *opaque.Vocabulary, e *opaque.Evaluation)
		uses bool
	}{
		"the input":               {func(v *opaque.Vocabulary, e *opaque.Evaluation) { at(t, v, e, "x") }, true},
		"the clock":               {func(_ *opaque.Vocabulary, e *opaque.Evaluation) { derive(t, e, clockFunction) }, true},
		"a computed value":        {func(_ *opaque.Vocabulary, e *opaque.Evaluation) { force(t, e, number) }, true},
		"a test of one":           {func(_ *opaque.Vocabulary, e *opaque.Evaluation) { _, _ = e.Test(opaque.Holds, number) }, true},
		"a comparison with one":   {func(_ *opaque.Vocabulary, e *opaque.Evaluation) { _, _ = e.Ask(opaque.Equal, one, number) }, true},
		"a comparison of one":     {func(_ *opaque.Vocabulary, e *opaque.Evaluation) { _, _ = e.Ask(opaque.Equal, number, one) }, true},
		"the keys of one":         {func(_ *opaque.Vocabulary, e *opaque.Evaluation) { _, _, _ = e.Keys(number) }, true},
		"what is made of one":     {func(_ *opaque.Vocabulary, e *opaque.Evaluation) { derive(t, e, divide, one, number) }, true},
		"something else":          {func(_ *opaque.Vocabulary, e *opaque.Evaluation) { e.Use() }, true},
		"a constant":              {func(_ *opaque.Vocabulary, e *opaque.Evaluation) { force(t, e, one) }, false},
		"a comparison":            {func(_ *opaque.Vocabulary, e *opaque.Evaluation) { _, _ = e.Ask(opaque.Equal, one, one) }, false},
		"what is made of several": {func(_ *opaque.Vocabulary, e *opaque.Evaluation) { derive(t, e, divide, one, one) }, false},
	} {
		v := opaque.NewVocabulary()
		e := begin(v, "1")
		if tt.look(v, e); (e.Uses() > 0) != tt.uses {
			t.Errorf("%s: %d uses", name, e.Uses())
		}
		e.End()
	}
}

// TestWhatBelongsToTheProgram: what was made of constants alone is one, the same each time, and what was
// made of anything else is not, known as it is. Nothing that belongs to one request becomes a part of a
// question.
func TestWhatBelongsToTheProgram(t *testing.T) {
	v := opaque.NewVocabulary()
	e := begin(v, "8")
	defer e.End()
	eight, two, x := opaque.Constant(ast.IntNumberTerm(8)), opaque.Constant(ast.IntNumberTerm(2)), at(t, v, e, "x")
	four, again := derive(t, e, divide, eight, two), derive(t, e, divide, eight, two)
	if !four.IsConstant() || !four.Same(again) {
		t.Error("what was made of constants is no constant, or another one each time")
	}
	if got := derive(t, e, divide, x, two); !isOpaque(got) {
		t.Error("what was made of the request is not opaque")
	}
	force(t, e, x)
	known := e.Known(x)
	if isOpaque(known) || known.IsConstant() {
		t.Error("what was forced is opaque, or a part of the program")
	}
	for name, got := range map[string]opaque.Value{
		"of what was forced": derive(t, e, divide, x, two), "of what is known": derive(t, e, divide, known, two),
		"of what was computed": derive(t, e, divide, eight, opaque.Computed(ast.IntNumberTerm(2))),
		"with the clock":       derive(t, e, divide, clockOf(t, e, ""), opaque.Computed(ast.IntNumberTerm(2))),
		"made":                 e.Made(ast.IntNumberTerm(4), []opaque.Value{eight, known}),
	} {
		if isOpaque(got) || got.IsConstant() {
			t.Errorf("%s: opaque: %v, constant: %v", name, isOpaque(got), got.IsConstant())
		}
	}
	if !e.Made(ast.IntNumberTerm(4), []opaque.Value{eight, two}).IsConstant() {
		t.Error("what was made of constants is no constant")
	}
	if _, err := e.Ask(opaque.LessThan, derive(t, e, clockFunction), known); err != nil || !e.Record().Once {
		t.Error("what belongs to one request became a part of a question", err)
	}
}

// TestPartsOfTables: a part of a constant is a part of the program, of which the address stands for it, and the
// part of a set, or of the request, is not.
func TestPartsOfTables(t *testing.T) {
	v := opaque.NewVocabulary()
	table := opaque.Constant(ast.MustParseTerm(`{"a": {"n": [1]}, "b": {"n": [2]}, "c": {"n": [1]}}`))
	set := opaque.Constant(ast.MustParseTerm(`{["a"], ["b"]}`))
	row := func(of opaque.Value, document string) (opaque.Value, []opaque.Entry) {
		e := begin(v, document)
		defer e.End()
		x := at(t, v, e, "x")
		if of.IsNone() { // the request's own table
			of, x = at(t, v, e, "x"), derive(t, e, opaque.GetKey, x, opaque.Constant(ast.StringTerm("key")))
		}
		got := derive(t, e, opaque.GetKey, of, x)
		if !isOpaque(got) {
			t.Fatal("the part is known")
		}
		force(t, e, got)
		return e.Known(got), slices.Clone(e.Record().Entries)
	}
	a, first := row(table, `"a"`)
	again, second := row(table, `"a"`)
	other, third := row(table, `"c"`)
	if !a.IsConstant() || !a.Same(again) || a.Same(other) || !slices.Equal(first, second) || slices.Equal(first, third) {
		t.Errorf("the rows of a table: constant: %v, the same: %v and %v", a.IsConstant(), a.Same(again), a.Same(other))
	}
	e := begin(v, "1")
	defer e.End()
	if got := derive(t, e, opaque.GetKey, set, opaque.Computed(ast.MustParseTerm(`["a"]`))); isOpaque(got) || got.IsConstant() {
		t.Error("an element of a set, which is the request's own, is a part of the program")
	}
	for name, of := range map[string]opaque.Value{"a set": set, "the request": {}} {
		documents := map[bool][2]string{true: {`["a"]`, `["b"]`}, false: {`{"key": "a", "a": [1]}`, `{"key": "a", "a": [2]}`}}[name == "a set"]
		mine, first := row(of, documents[0])
		_, second := row(of, documents[0])
		_, third := row(of, documents[1])
		if mine.IsConstant() || !slices.Equal(first, second) || slices.Equal(first, third) {
			t.Errorf("of %s: constant: %v, one record: %v and %v", name, mine.IsConstant(), slices.Equal(first, second), slices.Equal(first, third))
		}
	}
}

// TestTheBudgetOfQuestions: what would be a further question is answered by the contents of all it is about.
func TestTheBudgetOfQuestions(t *testing.T) {
	for name, ask := range map[string]func(e *opaque.Evaluation, x, y opaque.Value) error{
		"a comparison": func(e *opaque.Evaluation, x, y opaque.Value) error {
			_, err := e.Ask(opaque.LessThan, x, y)
			return err
		},
		"a test": func(e *opaque.Evaluation, x, _ opaque.Value) error { _, err := e.Test(opaque.Present, x); return err },
	} {
		v := opaque.NewVocabulary()
		record := func(a, b int) (asked, contents []opaque.Entry) {
			numbers := make([]int, opaque.MostAsked)
			e := v.Begin(manyOf(append(numbers, a, b)...), topdown.BuiltinContext{}, now, true)
			defer e.End()
			for i := range opaque.MostAsked {
				if _, err := e.Test(opaque.Present, at(t, v, e, fmt.Sprint("x", i))); err != nil {
					t.Fatal(err)
				}
			}
			x, y := at(t, v, e, fmt.Sprint("x", opaque.MostAsked)), at(t, v, e, fmt.Sprint("x", opaque.MostAsked+1))
			if err := ask(e, x, y); err != nil {
				t.Fatal(err)
			}
			all := slices.Clone(e.Record().Entries)
			return all[:opaque.MostAsked], all[opaque.MostAsked:]
		}
		_, first := record(1, 5)
		_, otherX := record(2, 5)
		_, otherY := record(1, 6)
		want := 1
		if name == "a comparison" {
			want = 2
		}
		for _, entry := range first {
			if !strings.HasPrefix(entry.Question.String(), "the content of ") {
				t.Errorf("%s: it asks for %s", name, entry.Question)
			}
		}
		if len(first) != want || slices.Equal(first, otherX) || slices.Equal(first, otherY) != (want == 1) {
			t.Errorf("%s: %d entries, that differ with the operands: %v and %v", name, len(first), !slices.Equal(first, otherX), !slices.Equal(first, otherY))
		}
	}
}

// TestLongRecordsAreOfNoUse, nor are those for which there is no room.
func TestLongRecordsAreOfNoUse(t *testing.T) {
	const most, mostQuestions = 1024, 8192
	v := opaque.NewVocabulary()
	e := v.Begin(manyOf(make([]int, most+1)...), topdown.BuiltinContext{}, now, true)
	for i := range most + 1 {
		if e.Record().Once {
			t.Fatalf("the record is of no use after %d entries", i)
		}
		force(t, e, at(t, v, e, fmt.Sprint("x", i)))
	}
	if !e.Record().Once || len(e.Record().Entries) != most {
		t.Errorf("%d entries, once: %v", len(e.Record().Entries), e.Record().Once)
	}
	e.End()
	for i := 0; i <= mostQuestions; i += opaque.MostAsked {
		e := begin(v, "1")
		x := at(t, v, e, "x")
		for j := range opaque.MostAsked {
			if _, err := e.Ask(opaque.LessThan, x, opaque.Constant(ast.IntNumberTerm(i+j))); err != nil {
				t.Fatal(err)
			}
		}
		e.End()
	}
	for name, learn := range map[string]func(e *opaque.Evaluation, y opaque.Value) error{
		"a content":    func(e *opaque.Evaluation, y opaque.Value) error { _, err := e.Force(y); return err },
		"a comparison": func(e *opaque.Evaluation, y opaque.Value) error { _, err := e.Ask(opaque.LessThan, y, y); return err },
		"a test":       func(e *opaque.Evaluation, y opaque.Value) error { _, err := e.Test(opaque.Holds, y); return err },
	} {
		e := begin(v, "")
		if err := learn(e, at(t, v, e, "y")); err != nil || !e.Record().Once {
			t.Errorf("%s without room: the error is %v, once: %v", name, err, e.Record().Once)
		}
		e.End()
	}
}

// sealed is an input in which what stands at x has to be parsed.
type sealed struct {
	opaque.Document
	sent string
}

func (sealed) Sealed(p *opaque.Path) bool { return len(p.Keys) > 0 }

func (s sealed) Seal(_ *opaque.Path, b []byte) []byte { return append(b, s.sent...) }

// TestWhatIsSealedIsKnown, and all of which it is made is in the record, whether it is looked at or not.
func TestWhatIsSealedIsKnown(t *testing.T) {
	v := opaque.NewVocabulary()
	path, _ := v.Input([]*ast.Term{ast.StringTerm("x")})
	record := func(source sealed) []opaque.Entry {
		e := v.Begin(source, topdown.BuiltinContext{}, now, true)
		defer e.End()
		got, err := e.Input(path)
		if term, known := got.Known(); err != nil || !known || got.IsConstant() || term.String() != "1" {
			t.Fatalf("%v, %v, constant: %v, %v", term, known, got.IsConstant(), err)
		}
		if e.Record().Once || len(e.Record().Entries) != 1 {
			t.Fatalf("%d entries, once: %v", len(e.Record().Entries), e.Record().Once)
		}
		return slices.Clone(e.Record().Entries)
	}
	first := record(sealed{documentOf("1"), "a"})
	if !slices.Equal(first, record(sealed{documentOf("1"), "a"})) || slices.Equal(first, record(sealed{documentOf("1"), "b"})) {
		t.Error("its record is not what was sent")
	}
}

// TestALookUpHasABudget: what a look-up would call with long texts is not called. An evaluation calls it.
func TestALookUpHasABudget(t *testing.T) {
	const most = 64 << 10
	lower := function(ast.Lower.Name, 1, false)
	lower.Cost = 4
	v := opaque.NewVocabulary()
	for length, ok := range map[int]bool{1: true, most / 4: true, most/4 + 1: false} {
		document := documentOf(`"` + strings.Repeat("A", length) + `"`)
		e := v.Begin(document, topdown.BuiltinContext{}, now, true)
		force(t, e, derive(t, e, lower, at(t, v, e, "x")))
		entries := slices.Clone(e.Record().Entries)
		e.End()
		look := v.Begin(document, topdown.BuiltinContext{}, now, false)
		look.LookUp()
		if len(entries) != 1 {
			t.Fatalf("%d entries", len(entries))
		}
		if answer, err := look.Answer(entries[0].Question); (err == nil) != ok || ok && answer != entries[0].Answer || !ok && !errors.Is(err, opaque.ErrTooMuch) {
			t.Errorf("of %d bytes the error is %v", length, err)
		}
		look.End()
	}
}

// TestNextNames: the ID of what follows depends on all of the node and all of the answer.
func TestNextNames(t *testing.T) {
	some := []opaque.Answer{{}, {0, 1}, {1, 0}, {1, 1}, {1 << 63, 0}, {0, 1 << 63}, {256, 0}}
	seen := make(map[opaque.Answer]bool)
	for _, node := range some {
		for _, answer := range some {
			next := opaque.Next(node, answer)
			if seen[next] || next != opaque.Next(node, answer) {
				t.Errorf("%v after %v is not its own", answer, node)
			}
			seen[next] = true
		}
	}
}
