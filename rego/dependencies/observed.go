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
//
// It is made for values of one type, that of which something is observed. Any other value
// is written whole: the policy finds out less about it, and it is rare.
type Observed struct {
	of      observedType
	equal   map[string]int
	begins  affixes
	ends    affixes
	parts   []string
	clocks  []clockForm
	fields  []observedField
	places  []observedPlace
	results []result
	// id is set if what is written of a text is cached, under it.
	id uint64
}

type observedType int

const (
	observedAny observedType = iota // that it is there; calls may be made with it
	observedText
	observedNumber
	observedObject
	observedArray
	observedWhole // everything
)

type observedField struct {
	name *ast.Term
	*Observed
}

type observedPlace struct {
	index int
	*Observed
}

// How a value begins that was written.
const (
	writtenAbsent byte = iota
	writtenObserved
	writtenText
	writtenNumber
	writtenOther
)

// Observe returns how what is observed at this path is written.
func (r *Reads) Observe() *Observed {
	o := &Observed{equal: make(map[string]int)}
	if r.whole {
		o.of = observedWhole
		return o
	}
	for _, name := range slices.Sorted(maps.Keys(r.children)) {
		o.add(name, r.children[name])
	}
	if o.checksTokens() {
		o.id = observedIDs.Add(1)
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

// add adds what is below a path.
func (o *Observed) add(name string, below *Reads) {
	switch {
	case plainName(name):
		o.become(observedObject)
		o.fields = append(o.fields, observedField{ast.StringTerm(name), below.Observe()})
	case name == lengthName:
		o.become(observedArray)
	case strings.HasPrefix(name, textPrefix):
		o.become(observedText)
		o.addText(name[len(textPrefix):])
	case strings.HasPrefix(name, callPrefix):
		o.addCall(name[len(callPrefix):], below.Observe())
	case strings.HasPrefix(name, clockPrefix):
		o.become(observedNumber)
		factor, offset, _ := strings.Cut(name[len(clockPrefix):], " ")
		f, err := strconv.ParseFloat(factor, 64)
		c, err2 := strconv.ParseFloat(offset, 64)
		if err != nil || err2 != nil {
			o.of = observedWhole
		}
		o.clocks = append(o.clocks, clockForm{f, c})
	default:
		o.become(observedArray)
		index, err := strconv.Atoi(name[len(indexPrefix):])
		if err != nil || index < 0 {
			o.of = observedWhole
		}
		o.places = append(o.places, observedPlace{index, below.Observe()})
	}
}

// become notes the type of value that an observation is of. Observations of several have
// the value written whole.
func (o *Observed) become(t observedType) {
	if o.of != observedAny && o.of != t {
		t = observedWhole
	}
	o.of = t
}

func (o *Observed) addText(comparison string) {
	if comparison == "" {
		return
	}
	text := comparison[1:]
	switch comparison[:1] {
	case textEqual:
		o.equal[text] = len(o.equal) + 1
	case textPrefixed:
		o.begins.add(text)
	case textSuffixed:
		o.ends.add(text)
	case textContains:
		o.parts = append(o.parts, text)
	default:
		o.of = observedWhole
	}
}

// Text writes a text. The validity has the moment, and no context; it is noted there until
// when the text is written alike.
func (o *Observed) Text(b []byte, text string, at *instrument.Validity) []byte {
	switch {
	case o.of != observedText && o.of != observedAny:
		return appendWritten(b, writtenText, text)
	case o.id != 0:
		return o.cached(b, text, at)
	}
	return o.write(b, text, at)
}

// write is Text of a text that is not written whole.
func (o *Observed) write(b []byte, text string, at *instrument.Validity) []byte {
	b = o.text(append(b, writtenObserved), text)
	if len(o.results) > 0 {
		b = o.calls(b, ast.String(text), at)
	}
	return b
}

// Value writes a value; nil is none.
func (o *Observed) Value(b []byte, v ast.Value, at *instrument.Validity) []byte {
	if v == nil {
		return append(b, writtenAbsent)
	}
	begin := len(b)
	b = append(b, writtenObserved)
	fits := o.of == observedAny
	switch v := v.(type) {
	case ast.String:
		if fits = fits || o.of == observedText; fits {
			b = o.text(b, string(v))
		}
	case ast.Number:
		if o.of == observedNumber {
			b, fits = o.number(b, v, at)
		}
	case ast.Object:
		if o.of == observedObject {
			fits = true
			for _, f := range o.fields {
				b = f.Value(b, valueOf(v.Get(f.name)), at)
			}
		}
	case *ast.Array:
		if o.of == observedArray {
			fits = true
			b = binary.AppendUvarint(b, uint64(v.Len()))
			for _, p := range o.places {
				b = p.Value(b, element(v, p.index), at)
			}
		}
	}
	if !fits {
		return whole(b[:begin], v)
	}
	return o.calls(b, v, at)
}

func valueOf(t *ast.Term) ast.Value {
	if t == nil {
		return nil
	}
	return t.Value
}

func element(array *ast.Array, i int) ast.Value {
	if i >= array.Len() {
		return nil
	}
	return array.Elem(i).Value
}

// whole writes all of a value.
func whole(b []byte, v ast.Value) []byte {
	switch v := v.(type) {
	case ast.String:
		return appendWritten(b, writtenText, string(v))
	case ast.Number:
		return appendWritten(b, writtenNumber, string(v))
	}
	return appendWritten(b, writtenOther, v.String())
}

func appendWritten(b []byte, kind byte, text string) []byte {
	return append(binary.AppendUvarint(append(b, kind), uint64(len(text))), text...)
}

// text writes which of the texts it is compared with a text is equal to, begins and ends
// with, and contains. Of two with which it begins, one begins with the other: the longest
// says which all are.
func (o *Observed) text(b []byte, text string) []byte {
	if len(o.equal) > 0 {
		b = binary.AppendUvarint(b, uint64(o.equal[text]))
	}
	if len(o.begins.lengths) > 0 {
		b = binary.AppendUvarint(b, uint64(o.begins.longest(func(n int) string { return text[:n] }, len(text))))
	}
	if len(o.ends.lengths) > 0 {
		b = binary.AppendUvarint(b, uint64(o.ends.longest(func(n int) string { return text[len(text)-n:] }, len(text))))
	}
	for _, part := range o.parts {
		b = appendBool(b, strings.Contains(text, part))
	}
	return b
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// affixes are texts that others may begin or end with.
type affixes struct {
	by map[string]int
	// lengths are those of the texts, from the longest.
	lengths []int
}

func (a *affixes) add(text string) {
	if a.by == nil {
		a.by = make(map[string]int)
	}
	a.by[text] = len(a.by) + 1
	if !slices.Contains(a.lengths, len(text)) {
		a.lengths = append(a.lengths, len(text))
		slices.SortFunc(a.lengths, func(a, b int) int { return b - a })
	}
}

// longest returns the number of the longest of the texts that cut gives; 0 if it gives none.
func (a *affixes) longest(cut func(n int) string, most int) int {
	for _, n := range a.lengths {
		if n <= most {
			if i, ok := a.by[cut(n)]; ok {
				return i
			}
		}
	}
	return 0
}

// number writes whether the clock has passed the moments at which comparisons with a number
// change.
func (o *Observed) number(b []byte, n ast.Number, at *instrument.Validity) ([]byte, bool) {
	value, ok := n.Float64()
	if !ok {
		return b, false
	}
	for _, f := range o.clocks {
		moment := (value - f.offset) / f.factor
		at.ChangesAt(moment)
		b = appendBool(b, moment > float64(at.Now))
	}
	return b, true
}

// result is what is observed of the result of a call.
type result struct {
	builtin  string
	function topdown.BuiltinFunc
	// operands are those of the call; that of the value is nil.
	operands []*ast.Term
	value    int
	*Observed
}

// addCall adds a call by its name in the tree.
func (o *Observed) addCall(name string, of *Observed) {
	parts := strings.Split(name, "\x00")
	r := result{builtin: parts[0], function: topdown.GetBuiltin(parts[0]), Observed: of, value: -1}
	if instrument.IsToken(parts[0]) {
		r.function = instrument.CachedToken(parts[0])
	}
	_, known := observable[parts[0]]
	for i, text := range parts[1:] {
		var operand *ast.Term
		if text == "" {
			r.value = i
		} else if t, err := ast.ParseTerm(text); err == nil {
			operand = t
		} else {
			known = false
		}
		r.operands = append(r.operands, operand)
	}
	if !known || r.value < 0 || r.function == nil {
		o.of = observedWhole
		return
	}
	o.results = append(o.results, r)
}

// calls writes what is observed of the results of calls with a value.
func (o *Observed) calls(b []byte, v ast.Value, at *instrument.Validity) []byte {
	for i := range o.results {
		b = o.results[i].Value(b, o.results[i].call(v, at), at)
	}
	return b
}

// call returns the result of the call with a value; nil if it has none, as where Rego has it
// undefined.
func (r *result) call(v ast.Value, at *instrument.Validity) (out ast.Value) {
	defer func() {
		if recover() != nil {
			at.Until = at.Now
		}
	}()
	operands := slices.Clone(r.operands)
	operands[r.value] = ast.NewTerm(v)
	validity := &instrument.Validity{Context: context.Background(), Now: at.Now, Until: instrument.Forever}
	bctx := topdown.BuiltinContext{Context: validity, Time: ast.NumberTerm(json.Number(strconv.FormatInt(at.Now, 10)))}
	err := r.function(bctx, operands, func(t *ast.Term) error {
		out = t.Value
		return nil
	})
	at.Until = min(at.Until, validity.Until)
	var halt topdown.Halt
	if errors.As(err, &halt) {
		at.Until = at.Now
	}
	if err != nil {
		return nil
	}
	return out
}
