package dependencies

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"understudy/rego/instrument"
)

// Observed writes what a read set takes of values: two values that are written alike at one
// moment are alike to the rule at that moment. It is made once for a read set, immutable
// and safe for concurrent use.
type Observed struct {
	// texts are the comparisons of a text with others.
	texts []*comparison
	// others are all other observations.
	others []observation
	// costly is how many calls are made with the value, or with what others make of it, whose time
	// grows with a text faster than to write the text.
	costly int
	// id is set if a built-in for tokens is called with the value, or with what a call makes of
	// it: what is written of a text is cached under it.
	id uint64
}

// mostObserved is how many bytes of text costly calls are made with for one request, each call with all
// of its text: beyond that texts are written whole. The calls are made before it is known whether the
// policy would make them, and whoever sends the request chooses the texts.
const mostObserved = 16 << 10

// observation writes what is found out about a value. It reports false for a value of another type
// than that of which it is made: this is written whole, since the policy finds out less about
// it, and it is rare. The value is written alike from now until another moment, both in
// nanoseconds since 1970; until now if the context is done. No validity is given to a function that
// is a value: it would be on the heap for each request.
type observation func(ctx context.Context, b []byte, v ast.Value, now int64) (written []byte, until int64, ok bool)

// unknown is for what has to be written whole.
func unknown(_ context.Context, b []byte, _ ast.Value, _ int64) ([]byte, int64, bool) {
	return b, 0, false
}

// How a value begins that was written.
const (
	writtenAbsent byte = iota
	writtenObserved
	writtenText
	writtenOther
)

// Observe returns how what is observed at this path is written.
func (r *Reads) Observe() *Observed {
	o := &Observed{}
	if r.whole {
		o.others = []observation{unknown}
	}
	for _, name := range slices.Sorted(maps.Keys(r.children)) {
		if kind := name[:min(len(name), len(textEqual))]; slices.Contains(textKinds, kind) {
			o.addText(kind, name[len(kind):])
			continue
		}
		below, builtin := r.children[name].Observe(), builtinOf(name)
		o.others = append(o.others, newObservation(name, below))
		o.costly += below.costly
		if builtin != "" && !quick[builtin] {
			o.costly++
		}
		if instrument.IsToken(builtin) || builtin != "" && below.id != 0 {
			o.id = observedIDs.Add(1)
		}
	}
	return o
}

// Observations returns how what is observed at this path is written, nil if all of it is
// read for itself.
func (r *Reads) Observations() *Observed {
	if r == nil || r.whole || !r.observed() {
		return nil
	}
	return r.Observe()
}

// newObservation returns the observation of a name in the tree, with what is below it.
func newObservation(name string, below *Observed) observation {
	index, err := strconv.Atoi(strings.TrimPrefix(name, indexPrefix))
	form, isForm := parseClockForm(name)
	switch {
	case plainName(name):
		field := ast.StringTerm(name)
		return partObservation(below, func(v ast.Value) (*ast.Term, bool) {
			if object, ok := v.(ast.Object); ok {
				return object.Get(field), true
			}
			return nil, false
		})
	case name == lengthName:
		return lengthObservation
	case strings.HasPrefix(name, callPrefix):
		return callObservation(name[len(callPrefix):], below)
	case strings.HasPrefix(name, clockPrefix) && isForm:
		return form.observation
	case name == IndexName(index) && err == nil && index >= 0:
		return partObservation(below, func(v ast.Value) (*ast.Term, bool) {
			array, ok := v.(*ast.Array)
			if ok && index < array.Len() {
				return array.Elem(index), true
			}
			return nil, ok
		})
	}
	return unknown
}

// Text writes a text. The validity has the moment and the context; it is noted there until when the
// text is written alike, which is not after now if the context is done. What calls with the text cost
// is noted there too: all texts of a request share a validity.
func (o *Observed) Text(b []byte, text string, at *instrument.Validity) []byte {
	cost := o.costly * len(text)
	if at.Observed+cost > mostObserved {
		return wholeText(b, text)
	}
	at.Observed += cost
	switch {
	case o.id != 0:
		return o.cached(b, text, at)
	case len(o.others) == 0:
		return o.compare(append(b, writtenObserved), text)
	}
	return o.Value(b, ast.String(text), at)
}

// Value is Text for a value of any type; nil is none.
func (o *Observed) Value(b []byte, v ast.Value, at *instrument.Validity) []byte {
	b, until := o.value(at.Context, b, v, at.Now)
	at.Until = min(at.Until, until)
	return b
}

// value writes a value, and returns until when it is written alike.
func (o *Observed) value(ctx context.Context, b []byte, v ast.Value, now int64) (written []byte, until int64) {
	until = instrument.Forever
	if v == nil {
		return append(b, writtenAbsent), until
	}
	text, isText := v.(ast.String)
	if !isText && len(o.texts) > 0 {
		return whole(b, v), until
	}
	written = o.compare(append(b, writtenObserved), string(text))
	for _, observation := range o.others {
		next, end, ok := observation(ctx, written, v, now)
		if !ok {
			return whole(b, v), instrument.Forever
		}
		written, until = next, min(until, end)
	}
	return written, until
}

// whole writes all of a value.
func whole(b []byte, v ast.Value) []byte {
	if text, ok := v.(ast.String); ok {
		return wholeText(b, string(text))
	}
	return appendText(append(b, writtenOther), v.String())
}

// wholeText writes all of a text.
func wholeText(b []byte, text string) []byte { return appendText(append(b, writtenText), text) }

// appendText appends a text with its length.
func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// comparison says which of some texts another one is equal to, begins or ends with. Of two
// with which it begins, one begins with the other: the longest says which all are.
type comparison struct {
	kind string
	by   map[string]int
	// lengths are those of the texts, from the longest.
	lengths []int
}

// addText adds a comparison with a text. The texts of one kind follow each other.
func (o *Observed) addText(kind, text string) {
	if n := len(o.texts); n == 0 || o.texts[n-1].kind != kind {
		o.texts = append(o.texts, &comparison{kind: kind, by: make(map[string]int)})
	}
	c := o.texts[len(o.texts)-1]
	c.by[text] = len(c.by) + 1
	if !slices.Contains(c.lengths, len(text)) {
		c.lengths = append(c.lengths, len(text))
		slices.SortFunc(c.lengths, func(a, b int) int { return b - a })
	}
}

// compare writes what comparisons say of a text.
func (o *Observed) compare(b []byte, text string) []byte {
	for _, c := range o.texts {
		b = binary.AppendUvarint(b, uint64(c.of(text)))
	}
	return b
}

// of returns the number of the longest of its texts for which the comparison holds; 0 if it holds
// for none.
func (c *comparison) of(text string) int {
	if c.kind == textEqual {
		return c.by[text]
	}
	for _, n := range c.lengths {
		part := text[:min(n, len(text))]
		if c.kind == textSuffixed {
			part = text[max(len(text)-n, 0):]
		}
		if i, ok := c.by[part]; ok && len(part) == n {
			return i
		}
	}
	return 0
}

// partObservation is of what is at a place of a value, nil if nothing is; place reports whether the
// value is of a type that has such places.
func partObservation(of *Observed, place func(ast.Value) (*ast.Term, bool)) observation {
	return func(ctx context.Context, b []byte, v ast.Value, now int64) ([]byte, int64, bool) {
		var part ast.Value
		t, ok := place(v)
		if t != nil {
			part = t.Value
		}
		b, until := of.value(ctx, b, part, now)
		return b, until, ok
	}
}

func lengthObservation(_ context.Context, b []byte, v ast.Value, _ int64) ([]byte, int64, bool) {
	array, ok := v.(*ast.Array)
	if !ok {
		return b, 0, false
	}
	return binary.AppendUvarint(b, uint64(array.Len())), instrument.Forever, true
}

// observation writes whether the clock has passed the moment at which a comparison with a number
// changes.
func (f clockForm) observation(_ context.Context, b []byte, v ast.Value, now int64) ([]byte, int64, bool) {
	n, _ := v.(ast.Number)
	value, ok := n.Float64()
	moment := (value - f.offset) / f.factor
	at := instrument.Validity{Now: now, Until: instrument.Forever}
	at.ChangesAt(moment)
	if moment > float64(now) {
		return append(b, 1), at.Until, ok
	}
	return append(b, 0), at.Until, ok
}

// callObservation is of the result of a call, by its name in the tree.
func callObservation(name string, of *Observed) observation {
	parts := strings.Split(name, "\x00")
	_, known := observable[parts[0]]
	c := call{topdown.GetBuiltin(parts[0]), make([]*ast.Term, len(parts)-1), slices.Index(parts, "") - 1}
	if instrument.IsToken(parts[0]) {
		c.function = instrument.CachedToken(parts[0])
	}
	for i, text := range parts[1:] {
		if i == c.value {
			continue
		}
		operand, err := ast.ParseTerm(text)
		c.operands[i], known = operand, known && err == nil
	}
	if !known || c.value < 0 {
		return unknown
	}
	return func(ctx context.Context, b []byte, v ast.Value, now int64) ([]byte, int64, bool) {
		if ctx.Err() != nil {
			return b, now, true
		}
		result, end := c.result(ctx, v, now)
		b, until := of.value(ctx, b, result, now)
		return b, min(until, end), true
	}
}

// call is a call of a built-in with constants beside one value.
type call struct {
	function topdown.BuiltinFunc
	operands []*ast.Term
	// value is which of the operands is the value.
	value int
}

// result returns the result of the call with a value, and until when it is the same; nil if it has
// none, as where Rego has it undefined.
func (c *call) result(ctx context.Context, v ast.Value, now int64) (out ast.Value, until int64) {
	defer func() {
		if recover() != nil {
			out, until = nil, now
		}
	}()
	operands := slices.Clone(c.operands)
	operands[c.value] = ast.NewTerm(v)
	at := &instrument.Validity{Context: ctx, Now: now, Until: instrument.Forever}
	bctx := topdown.BuiltinContext{Context: at, Time: ast.NumberTerm(json.Number(strconv.FormatInt(now, 10)))}
	err := c.function(bctx, operands, func(t *ast.Term) error {
		out = t.Value
		return nil
	})
	var halt topdown.Halt
	switch {
	case errors.As(err, &halt):
		return nil, now
	case err != nil:
		return nil, at.Until
	}
	return out, at.Until
}
