package opaque_test

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"understudy/rego/opaque"
)

// contents are what may stand at input.x, as Rego writes it; empty if nothing does. Many are made of the same
// characters as another.
var contents = []string{
	"", "null", "false", "true", `""`, `"a"`, `"b"`, `"ab"`, `"abc"`, `"bc"`, `"null"`, `"n"`, `"1"`, `"1.0"`, `"\u0001"`, `"\u0001a"`,
	"1", "1.0", "10e-1", "0", "-1", "2", "11", "1700000000", "100000000000000000000", "100000000000000000001",
	"[]", "{}", "set()", "[null]", "[[]]", "[[], []]", "[[[]]]", "[{}]", `["a"]`, `["b"]`, `["a", "b"]`, `["b", "a"]`, `["ab"]`, `["ab", ""]`, `["", "ab"]`,
	`["a", "sb"]`, `["as", "b"]`, `{"a": "sb"}`, `{"as": "b"}`, `{"a", "sb"}`, `{"as", "b"}`, `["a", "b", "c"]`, `[["a"], "b"]`, `[["a", "b"]]`, `[[], "a", "b"]`, `["c"]`, `["c", 1]`, `["a", 1]`, `[1]`, `["1"]`, "[1.0]",
	`{"a"}`, `{"a", "b"}`, `{"ab"}`, `{1}`, `{"a": "b"}`, `{"a": null}`, `{"ab": ""}`, `{"a": {"b": 1}}`, `{"b": "a"}`, `{"a": "b", "b": "a"}`,
}

// texts are those with which the program compares.
var texts = []string{"", "a", "b", "ab", "bc", "c", "null", "1"}

// documentOf returns an input in which something stands at x.
func documentOf(x string) opaque.Document {
	if x == "" {
		return opaque.Document{Root: ast.MustParseTerm(`{"y": 1}`).Value}
	}
	return opaque.Document{Root: ast.ObjectTerm(ast.Item(ast.StringTerm("x"), ast.MustParseTerm(x))).Value}
}

// begin begins an evaluation that is recorded.
func begin(v *opaque.Vocabulary, x string) *opaque.Evaluation {
	return v.Begin(documentOf(x), topdown.BuiltinContext{}, now, true)
}

// now is the time of the requests, in nanoseconds since 1970.
const now = 1_700_000_000_000_000_000

// at returns what stands at a name of the input.
func at(t *testing.T, v *opaque.Vocabulary, e *opaque.Evaluation, name string) opaque.Value {
	t.Helper()
	path, n := v.Input([]*ast.Term{ast.StringTerm(name)})
	out, err := e.Input(path)
	if _, known := out.Known(); err != nil || known || n != 1 {
		t.Fatalf("input.%s is known, or has the error %v", name, err)
	}
	return out
}

// lesson is a way to learn something of a value.
type lesson struct {
	// learn returns what was learned.
	learn func(*testing.T, *opaque.Evaluation, opaque.Value) string
	// want says what a content comes to; nil if that does not exist.
	want func(*ast.Term) string
	// finer says that a number may be told apart from what has the same outcome: the program compares with numbers, too.
	finer bool
}

// isNumber reports whether a content is a number.
func isNumber(content string) bool {
	if content == "" {
		return false
	}
	_, is := termOf(content).Value.(ast.Number)
	return is
}

// truths are the names of the outcomes.
var truths = map[opaque.Truth]string{opaque.Undefined: "undefined", opaque.Yes: "yes", opaque.No: "no", opaque.Open: "open"}

func truth(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// withConstants asks a test with constants, on the left if swapped. Want is called for contents and
// constants that are there.
func withConstants(test *opaque.Test, swapped bool, constants []opaque.Value, want func(content, constant *ast.Term) string) lesson {
	return lesson{
		learn: func(t *testing.T, e *opaque.Evaluation, x opaque.Value) (out string) {
			for _, c := range constants {
				a, b := x, c
				if swapped {
					a, b = c, x
				}
				got, err := e.Ask(test, a, b)
				if err != nil {
					t.Fatal(err)
				}
				out += truths[got] + " "
			}
			return out
		},
		want: func(content *ast.Term) (out string) {
			for _, c := range constants {
				term, _ := c.Known()
				if content == nil {
					out += absent(test) + " "
				} else {
					out += want(content, term) + " "
				}
			}
			return out
		},
	}
}

// absent is the outcome of a test of what is not there.
func absent(test *opaque.Test) string {
	if test == opaque.HasLength {
		return "no"
	}
	return "undefined"
}

// ofTexts is the outcome of a test of texts.
func ofTexts(of func(a, b string) bool) func(content, constant *ast.Term) string {
	return func(content, constant *ast.Term) string {
		a, ok := content.Value.(ast.String)
		b, okToo := constant.Value.(ast.String)
		if !ok || !okToo {
			return "undefined"
		}
		return truth(of(string(a), string(b)))
	}
}

func constants(of ...string) (out []opaque.Value) {
	for _, text := range of {
		out = append(out, opaque.Constant(ast.MustParseTerm(text)))
	}
	return out
}

// isElement is what Rego says to a scalar in a set of scalars. Anything else is for somebody else to say.
func isElement(content, set *ast.Term) string {
	switch content.Value.(type) {
	case *ast.Array, ast.Object, ast.Set:
		return "open"
	}
	if len(content.String()) > 15 {
		return "open" // such as a long number
	}
	return truth(set.Value.(ast.Set).Contains(content))
}

// isMember is what Rego says to a text in a list of texts, or a set. Anything else is for somebody else to say.
func isMember(content, constant *ast.Term) string {
	if set, ok := content.Value.(ast.Set); ok {
		return truth(set.Contains(constant))
	}
	list, ok := content.Value.(*ast.Array)
	if !ok {
		return "open"
	}
	found := false
	for i := range list.Len() {
		if _, isText := list.Elem(i).Value.(ast.String); !isText {
			return "open"
		}
		found = found || list.Elem(i).Value.Compare(constant.Value) == 0
	}
	return truth(found)
}

// lessons are all ways to learn something of one value, with the texts of a vocabulary.
func lessons(v *opaque.Vocabulary) map[string]lesson {
	var all []opaque.Value
	for _, text := range texts {
		all = append(all, opaque.Constant(ast.StringTerm(text)))
	}
	for _, test := range []*opaque.Test{opaque.Equal, opaque.StartsWith, opaque.EndsWith, opaque.Member} {
		for _, c := range all {
			term, _ := c.Known()
			v.AddTexts(test, term)
		}
	}
	for _, number := range constants("0", "1", "2", "1.0", "11") { // of which one is in a form of its own
		term, _ := number.Known()
		v.AddTexts(opaque.Equal, term)
	}
	compare := func(holds func(int) bool) func(content, constant *ast.Term) string {
		return func(content, constant *ast.Term) string { return truth(holds(content.Value.Compare(constant.Value))) }
	}
	swap := func(holds func(int) bool) func(content, constant *ast.Term) string {
		return func(content, constant *ast.Term) string { return truth(holds(constant.Value.Compare(content.Value))) }
	}
	equal, unequal, less := func(c int) bool { return c == 0 }, func(c int) bool { return c != 0 }, func(c int) bool { return c < 0 }
	others := constants("1", "1.0", "null", "[]", `{"a"}`)
	return map[string]lesson{
		"content": {learnContent, func(content *ast.Term) string {
			if content == nil {
				return "nothing"
			}
			return content.String()
		}, false},
		"keys": {learnKeys, func(content *ast.Term) string {
			if content == nil {
				return "none"
			}
			switch c := content.Value.(type) {
			case *ast.Array:
				keys := make([]int, c.Len())
				for i := range keys {
					keys[i] = i
				}
				return fmt.Sprint(keys)
			case ast.Object:
				return fmt.Sprint(c.Keys())
			}
			return "none"
		}, false},
		"is there":               oneValue(opaque.Present, func(content *ast.Term) bool { return content != nil }),
		"holds":                  oneValue(opaque.Holds, func(content *ast.Term) bool { return content != nil && content.String() != "false" }),
		"equality with texts":    withConstants(opaque.Equal, false, all, compare(equal)).andNumbers(),
		"texts' equality":        withConstants(opaque.Equal, true, all, compare(equal)).andNumbers(),
		"inequality with texts":  withConstants(opaque.NotEqual, false, all, compare(unequal)).andNumbers(),
		"equality with others":   withConstants(opaque.Equal, false, constants("1.0", "17", "null", "[]", `{"a"}`), compare(equal)),
		"order":                  withConstants(opaque.LessThan, false, append(others, all[1]), compare(less)),
		"order, swapped":         withConstants(opaque.LessThan, true, append(others, all[1]), swap(less)),
		"the other order":        withConstants(opaque.GreaterThanEq, false, others, compare(func(c int) bool { return c >= 0 })),
		"prefixes":               withConstants(opaque.StartsWith, false, all, ofTexts(strings.HasPrefix)),
		"prefixes one by one":    withConstants(opaque.StartsWith, false, constants(`"abcd"`, `"x"`, "1"), ofTexts(strings.HasPrefix)),
		"of what it is a prefix": withConstants(opaque.StartsWith, true, constants(`"abcd"`), func(content, constant *ast.Term) string { return ofTexts(strings.HasPrefix)(constant, content) }),
		"suffixes":               withConstants(opaque.EndsWith, false, all, ofTexts(strings.HasSuffix)),
		"members":                withConstants(opaque.Member, true, all, isMember),
		"one member":             withConstants(opaque.Member, true, constants(`"xyz"`), isMember),
		"an element":             withConstants(opaque.Member, false, constants(`{"a", "b"}`, "{1, 2}", `{null, "abc", true}`), isElement),
		"a length": withConstants(opaque.HasLength, false, constants("0", "1", "2"), func(content, constant *ast.Term) string {
			array, ok := content.Value.(*ast.Array)
			return truth(ok && fmt.Sprint(array.Len()) == constant.String())
		}),
	}
}

// andNumbers is a lesson that may tell a number apart.
func (l lesson) andNumbers() lesson {
	l.finer = true
	return l
}

func learnContent(t *testing.T, e *opaque.Evaluation, x opaque.Value) string {
	content, err := e.Force(x)
	switch {
	case err != nil:
		t.Fatal(err)
	case content == nil:
		return "nothing"
	}
	return content.String()
}

func learnKeys(t *testing.T, e *opaque.Evaluation, x opaque.Value) string {
	keys, ok, err := e.Keys(x)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		return "none"
	}
	all := make([]*ast.Term, len(keys))
	for i, k := range keys {
		all[i], _ = k.Known()
	}
	return fmt.Sprint(all)
}

func oneValue(test *opaque.Test, want func(*ast.Term) bool) lesson {
	return lesson{func(t *testing.T, e *opaque.Evaluation, x opaque.Value) string {
		got, err := e.Test(test, x)
		if err != nil {
			t.Fatal(err)
		}
		return truths[got]
	}, func(content *ast.Term) string { return truth(want(content)) }, false}
}

// TestWhatIsLearnedIsRecorded: whichever way something is learned of a value, it is right, and two
// requests have the same record exactly if the same was learned of them. Numbers that are equal are told
// apart by how they are written: a policy can make a text of them. So has a look-up that is asked the
// questions of another request. With -short a tenth of the pairs is compared.
func TestWhatIsLearnedIsRecorded(t *testing.T) {
	v := opaque.NewVocabulary()
	for name, l := range lessons(v) {
		t.Run(name, func(t *testing.T) {
			var outcomes []string
			var records [][]opaque.Entry
			for _, content := range contents {
				outcome, record := learned(t, v, l, content)
				if want := l.want(termOf(content)); outcome != want {
					t.Fatalf("of %q it is learned that %q, want %q", content, outcome, want)
				}
				outcomes, records = append(outcomes, outcome), append(records, record)
			}
			for i := range contents {
				for j := range contents {
					if testing.Short() && (i+j)%10 != 0 {
						continue
					}
					same := slices.Equal(records[i], records[j])
					finer := (contents[i] == "") != (contents[j] == "") || // nothing may be told apart from something
						l.finer && (isNumber(contents[i]) || isNumber(contents[j]))
					if same != (outcomes[i] == outcomes[j]) && (same || !finer) {
						t.Errorf("of %q is learned %q, of %q %q: the records are the same: %v", contents[i], outcomes[i], contents[j], outcomes[j], same)
					}
					if found := answersAlike(t, v, records[i], contents[j]); found && outcomes[i] != outcomes[j] {
						t.Errorf("%q is found for %q", contents[i], contents[j])
					}
				}
			}
		})
	}
}

// learned returns what was learned of a content, with the record, in which the evaluation has noted a use.
func learned(t *testing.T, v *opaque.Vocabulary, l lesson, content string) (string, []opaque.Entry) {
	t.Helper()
	e := begin(v, content)
	defer e.End()
	x := at(t, v, e, "x")
	uses := e.Uses()
	outcome := l.learn(t, e, x)
	record := e.Record()
	if len(record.Entries) == 0 || record.Once || e.Uses() == uses {
		t.Fatalf("%q: %d entries, once: %v, %d uses after %d", content, len(record.Entries), record.Once, e.Uses(), uses)
	}
	entries := slices.Clone(record.Entries)
	if again := l.learn(t, e, x); again != outcome || len(e.Record().Entries) != len(entries) {
		t.Fatalf("%q: once more it is %q, in %d entries, after %d", content, again, len(e.Record().Entries), len(entries))
	}
	plain := v.Begin(documentOf(content), topdown.BuiltinContext{}, now, false)
	defer plain.End()
	if got := l.learn(t, plain, at(t, v, plain, "x")); got != outcome || len(plain.Record().Entries) > 0 {
		t.Fatalf("%q: without a record it is %q, and not %q", content, got, outcome)
	}
	return outcome, entries
}

// answersAlike reports whether a look-up for a content gives the answers of a record.
func answersAlike(t *testing.T, v *opaque.Vocabulary, record []opaque.Entry, content string) bool {
	t.Helper()
	look := v.Begin(documentOf(content), topdown.BuiltinContext{}, now, false)
	defer look.End()
	look.LookUp()
	for _, entry := range record {
		if answer, err := look.Answer(entry.Question); err != nil {
			t.Fatal(err)
		} else if answer != entry.Answer {
			return false
		}
	}
	return true
}

// TestManyTextsAreMatchedAtOnce: of the texts of a program, which are in another order than in the value, more match than
// are compared one by one.
func TestManyTextsAreMatchedAtOnce(t *testing.T) {
	const all, matching = 12, 10
	var elements []string
	for n := range matching {
		elements = append(elements, strconv.Quote(strings.Repeat("x", n+1)))
	}
	for test, content := range map[*opaque.Test]string{
		opaque.StartsWith: elements[matching-1], opaque.EndsWith: elements[matching-1], opaque.Member: "[" + strings.Join(elements, ", ") + "]",
	} {
		v := opaque.NewVocabulary()
		for n := all; n > 0; n-- {
			v.AddTexts(test, ast.StringTerm(strings.Repeat("x", n)))
		}
		e := begin(v, content)
		x := at(t, v, e, "x")
		for n := all; n > 0; n-- {
			a, b := x, opaque.Constant(ast.StringTerm(strings.Repeat("x", n)))
			if test == opaque.Member {
				a, b = b, a
			}
			if got, err := e.Ask(test, a, b); err != nil || truths[got] != truth(n <= matching) {
				t.Errorf("%v with a text of %d bytes: %s, with the error %v", test, n, truths[got], err)
			}
		}
		e.End()
	}
}

func termOf(content string) *ast.Term {
	if content == "" {
		return nil
	}
	return ast.MustParseTerm(content)
}

// TestTheClockIsComparedExactly: integers with the clock, and with the clock divided, in both orders.
func TestTheClockIsComparedExactly(t *testing.T) {
	values := []string{
		"-1", "0", "1", "1699999999", "1700000000", "1700000001", "1699998000", "1700002000", "1699999999999999999", "1700000000000000000",
		"1700000000000000001", "1698000000000000000", "1702000000000000000", "18446744074", "18446744075", "20146744073", "999999999999999999", "170", "1700",
	}
	orders := map[*opaque.Test]func(int) bool{
		opaque.LessThan: func(c int) bool { return c < 0 }, opaque.LessThanEq: func(c int) bool { return c <= 0 },
		opaque.GreaterThan: func(c int) bool { return c > 0 }, opaque.GreaterThanEq: func(c int) bool { return c >= 0 },
	}
	for _, divisors := range []string{"", "1", "1000", "1000000000", "10000000000000000", "1 1", "1000 1000000", "1000000000 1000", "1000 1000 1000"} {
		for _, value := range values {
			for test, holds := range orders {
				clock, _ := new(big.Rat).SetString(fmt.Sprint(now))
				for _, divisor := range strings.Fields(divisors) {
					by, _ := new(big.Rat).SetString(divisor)
					clock.Quo(clock, by)
				}
				n, _ := new(big.Rat).SetString(value)
				v := opaque.NewVocabulary()
				e := begin(v, value)
				x, shown := at(t, v, e, "x"), clockOf(t, e, divisors)
				straight, err := e.Ask(test, x, shown)
				swapped, errToo := e.Ask(test, shown, x)
				if err != nil || errToo != nil {
					t.Fatal(err, errToo)
				}
				if want := truth(holds(n.Cmp(clock))); truths[straight] != want {
					t.Errorf("%s with the clock / %q: %s, want %s", value, divisors, truths[straight], want)
				}
				if want := truth(holds(clock.Cmp(n))); truths[swapped] != want {
					t.Errorf("the clock / %q with %s: %s, want %s", divisors, value, truths[swapped], want)
				}
				if e.Record().Once || len(e.Record().Entries) != 2 {
					t.Errorf("%d entries, once: %v", len(e.Record().Entries), e.Record().Once)
				}
				e.End()
			}
		}
	}
}

// clockFunction shows the clock, and divide divides it, as Rego's functions do.
var (
	clockFunction = function(ast.NowNanos.Name, 0, true)
	divide        = function(ast.Divide.Name, 2, false)
)

func function(name string, arity int, clock bool) *opaque.Function {
	call := topdown.GetBuiltin(name)
	return &opaque.Function{Name: name, Arity: arity, Clock: clock, Call: func(b topdown.BuiltinContext, operands []*ast.Term, collect func(*ast.Term) error) error {
		return call(b, operands, collect)
	}}
}

// clockOf returns the clock, divided by some numbers.
func clockOf(t *testing.T, e *opaque.Evaluation, divisors string) opaque.Value {
	t.Helper()
	out := derive(t, e, clockFunction)
	for _, divisor := range strings.Fields(divisors) {
		out = derive(t, e, divide, out, opaque.Constant(ast.MustParseTerm(divisor)))
	}
	return out
}
