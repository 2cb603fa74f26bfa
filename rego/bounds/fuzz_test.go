package bounds_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/types"

	"understudy/rego/bounds"
)

const (
	// deadline is that of a call in the search, and slack what it may take beyond it: many
	// times what is promised for a quiet machine.
	deadline, slack = 50 * time.Millisecond, 500 * time.Millisecond
	// maxOperand is how much text the operands of one call have together: a request.
	maxOperand = 1 << 20
)

// callable are all built-ins that a policy may call, in order.
func callable() (out []*ast.Builtin) {
	for _, b := range ast.CapabilitiesForThisVersion().Builtins {
		if !slices.Contains(unreachable, b.Name) && topdown.GetBuiltin(b.Name) != nil {
			out = append(out, ast.BuiltinMap[b.Name])
		}
	}
	slices.SortFunc(out, func(a, b *ast.Builtin) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// FuzzBuiltins calls any built-in with operands of any size and shape. It looks for one
// that neither ends with its evaluation nor is bounded. The seeds have each built-in, with
// small operands. How long a call takes is looked at in a search alone, on a machine that
// does nothing else:
//
//	UNDERSTUDY_SEARCH=1 go test ./rego/bounds -run '^$' -fuzz FuzzBuiltins -fuzztime 10m
func FuzzBuiltins(f *testing.F) {
	builtins := callable()
	for i := range builtins {
		f.Add(uint16(i), uint64(i), uint32(100))
	}
	searching := os.Getenv("UNDERSTUDY_SEARCH") != ""
	f.Fuzz(func(t *testing.T, which uint16, seed uint64, size uint32) {
		b := builtins[int(which)%len(builtins)]
		o := &operands{Rand: rand.New(rand.NewPCG(seed, 7)), left: int(size) % (maxOperand + 1), digits: bounds.MaxDigits}
		args := o.of(b)
		took, err := timed(b, args)
		if searching && took > deadline+slack {
			t.Errorf("%s took %v (%v) with %s", b.Name, took, err, describe(args))
		}
	})
}

// flag implements topdown.Cancel.
type flag struct{ ctx context.Context }

func (f flag) Cancel()         {}
func (f flag) Cancelled() bool { return f.ctx.Err() != nil }

// timed calls a built-in as an evaluation does, and returns how long it took.
func timed(b *ast.Builtin, args []*ast.Term) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	bctx := topdown.BuiltinContext{
		Context: ctx, Cancel: flag{ctx}, Time: ast.NumberTerm("1700000000000000000"),
		Seed: strings.NewReader(strings.Repeat("seed", 100)), Capabilities: ast.CapabilitiesForThisVersion(),
		Cache: make(map[any]any), Location: ast.NewLocation(nil, "m.rego", 1, 1),
	}
	if b.CanSkipBctx {
		bctx = topdown.BuiltinContext{Location: bctx.Location}
	}
	begin := time.Now()
	err := topdown.GetBuiltin(b.Name)(bctx, args, func(*ast.Term) error {
		if ctx.Err() != nil {
			return errEnded // as the next step of the evaluation
		}
		return nil
	})
	return time.Since(begin), err
}

var errEnded = errors.New("ended")

func describe(args []*ast.Term) string {
	var out []string
	for _, a := range args {
		text := a.String()
		out = append(out, fmt.Sprintf("%d bytes: %.80s", len(text), text))
	}
	return strings.Join(out, "; ")
}

// operands makes random operands.
type operands struct {
	*rand.Rand
	// left is how much text may still be made.
	left int
	// digits is how many digits long numbers may still have, as in a request.
	digits int
	// fractions counts those that were made.
	fractions int
}

// of makes the operands of one call: one of them may have nearly all of the size.
func (o *operands) of(b *ast.Builtin) (out []*ast.Term) {
	args := b.Decl.FuncArgs().Args
	all := o.left
	large := o.IntN(len(args) + 2)
	for i, arg := range args {
		o.left = all / (len(args) + 1)
		switch {
		case large == i:
			o.left = all
		case large < len(args):
			o.left = min(all, 100)
		}
		out = append(out, ast.NewTerm(o.value(arg)))
	}
	return out
}

// value makes a value of a type, mostly.
func (o *operands) value(t types.Type) ast.Value {
	if o.IntN(30) == 0 {
		t = types.A
	}
	switch t := t.(type) {
	case *types.NamedType:
		return o.value(t.Type)
	case types.String:
		return ast.String(o.text())
	case types.Number:
		return o.number()
	case types.Boolean:
		return ast.Boolean(o.IntN(2) == 0)
	case types.Null:
		return ast.Null{}
	case *types.Array:
		element := t.Dynamic()
		if element == nil {
			var fixed []*ast.Term
			for i := range t.Len() {
				fixed = append(fixed, ast.NewTerm(o.value(t.Select(i))))
			}
			return ast.NewArray(fixed...)
		}
		return ast.NewArray(o.several(element)...)
	case *types.Set:
		elements := o.several(t.Of())
		return ast.NewSet(elements[:min(len(elements), 50_000)]...)
	case *types.Object:
		return o.object(t)
	case types.Any:
		if len(t) > 0 {
			return o.value(t[o.IntN(len(t))])
		}
	}
	return o.value(anything[o.IntN(len(anything))])
}

var anything = []types.Type{
	types.S, types.S, types.N, types.B, types.Nl, types.NewArray(nil, types.A), types.NewSet(types.A),
	types.NewArray(nil, types.S), types.NewArray(nil, types.N),
	types.NewObject(nil, types.NewDynamicProperty(types.S, types.A)),
	types.NewObject(nil, types.NewDynamicProperty(types.S, types.NewArray(nil, types.S))),
}

// several makes the elements of a collection: few, many, or the same many times.
func (o *operands) several(of types.Type) (out []*ast.Term) {
	all := o.left
	each := all / []int{1, 2, 3, 10, 1000, 100_000, 1_000_000}[o.IntN(7)]
	same := o.IntN(4) == 0
	for n := 0; n < 500_000; n++ {
		if same && len(out) > 0 {
			out = append(out, out[0])
			if all -= each + 3; all <= 0 {
				return out
			}
			continue
		}
		o.left = min(each, all)
		out = append(out, ast.NewTerm(o.value(of)))
		if all -= max(each-o.left, 3); all <= 0 {
			return out
		}
	}
	return out
}

func (o *operands) object(t *types.Object) ast.Value {
	out := ast.NewObject()
	for _, p := range t.StaticProperties() {
		if key, err := ast.InterfaceToValue(p.Key); err == nil {
			out.Insert(ast.NewTerm(key), ast.NewTerm(o.value(p.Value)))
		}
	}
	if d := t.DynamicProperties(); d != nil {
		all := o.left
		each := all / []int{1, 2, 3, 10, 1000, 100_000}[o.IntN(6)]
		for n := 0; n < 200_000 && all > 0; n++ {
			o.left = min(each, all)
			key := ast.StringTerm(fmt.Sprint(n))
			if word := ast.StringTerm(o.word()); o.IntN(10) == 0 && out.Get(word) == nil {
				key = word // a second one of a name takes OPA as long as there are names
			}
			out.Insert(key, ast.NewTerm(o.value(d.Value)))
			all -= max(each-o.left, 5)
		}
	}
	return out
}

func (o *operands) number() ast.Value {
	switch o.IntN(8) {
	case 0:
		digits := strings.Repeat("9", 1+o.IntN(max(1, min(o.left, o.digits))))
		o.digits -= len(digits)
		o.left -= len(digits)
		return ast.Number(json.Number(digits))
	case 1:
		size := 1 + o.IntN(max(1, o.digits))
		o.digits -= size
		return ast.Number(fmt.Sprintf("%de%s%d", 1+o.IntN(9), []string{"", "-"}[o.IntN(2)], size))
	case 2:
		// Few: OPA takes time to make sets of them that grows with the square of their number.
		if o.fractions++; o.fractions < 2000 {
			return ast.Number(fmt.Sprint(o.Float64()))
		}
	case 3:
		return ast.Number(fmt.Sprint(o.Int64()))
	case 4:
		return ast.Number("-" + fmt.Sprint(o.IntN(1000)))
	}
	return ast.Number(fmt.Sprint(o.IntN(100)))
}

// word is a short text with a meaning to some built-in.
func (o *operands) word() string { return words[o.IntN(len(words))] }

var words = []string{
	"", "a", "b", "aa", "ab", "é", "\x00", " ", "\n", "0", "1", "9", "-", "+", ".", ",", ":", ";", "/", "//", "\\", "'", "\"", "&", "=", "%", "%s", "%d",
	"%v", "%999999d", "%*d", "%[1]s", "%q", "%41", "[", "]", "{", "}", "(", ")", "*", "?", "|", "^", "$", "(a|b)", "a*", "(a*)*", "[a-z]", "{1,100}", "(a{1,30}){1,30}",
	"\\d+", ".*", "**", "{a,b}", "{{", "}}", "{{.}}", "{{range .}}", "{{end}}", "{\"a\":", "[1,", "null", "true", "1e9", "- a\n", "a: &x\n", " *x\n", "? ", "!!binary ", "a.b.c",
	"10.0.0.0/8", "::/0", "192.168.1.1/32", "http://a/", "Monday", "2006-01-02T15:04:05Z07:00", "MST", "1h", "Gi", "-----BEGIN CERTIFICATE-----\n",
	"-----END CERTIFICATE-----\n", "eyJhbGciOiJIUzI1NiJ9.", "e30.", "query Q ", "fragment F on T ", "...F ", "type Query ", "type T implements I ", "a(b: 1) ", "op", "add", "copy",
	"path", "from", "value", "remove", "$ref", "#", "allOf", "properties", "items", "indent", "prefix", "pretty", "secret", "cert", "alg", "package a\n", "x := 1\n", "not ", "[x | ",
}

// text makes a text: of one word again and again, of some, nested, or of anything.
func (o *operands) text() string {
	n := max(o.left, 0)
	if n > 20 {
		n = 1 + o.IntN(n)
		if o.IntN(3) == 0 {
			n = o.left
		}
	}
	var b strings.Builder
	defer func() { o.left -= b.Len() }()
	begin, one, end := o.word(), o.word(), o.word()
	switch o.IntN(5) {
	case 0:
		for b.Len() < n {
			b.WriteString(o.word())
		}
	case 1: // nested
		times := n / max(1, len(one)+len(end))
		b.WriteString(strings.Repeat(one, times) + begin + strings.Repeat(end, times))
	default:
		times := n / max(1, len(one))
		b.WriteString(begin + strings.Repeat(one, times) + end)
	}
	return b.String()
}
