package bounds

import (
	"math/bits"
	"net/netip"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

const (
	// maxValues is how many values a built-in makes or puts in order: each takes some
	// hundred nanoseconds and about a hundred bytes.
	maxValues = 100_000
	// maxRead is how many values a built-in looks at.
	maxRead = 500_000
	// maxPatched bounds the work of json.patch.
	maxPatched = 5_000_000

	valuesOf = "values (64 bytes of text count as one)"
)

var _ = []struct{}{
	bind(maxRead, valuesOf, func(o []*ast.Term) int { return compared(o) + 30*weighed(o, maxRead).digits }, "sum"),
	bind(maxRead, valuesOf, compared, "max", "min", "internal.member_2", "object.keys"),
	bind(5_000_000, "comparisons", func(o []*ast.Term) int { return max(compared(o[:2]), inArray(o[0], o[1])) }, "object.subset"),
	bind(maxValues, valuesOf, size, "json.marshal", "object.union", "object.union_n", "urlquery.encode_object",
		"array.concat", "array.flatten", "array.slice", "array.reverse"),
	bind(maxValues, valuesOf, compared, "json.filter", "json.remove", "object.remove", "object.filter"),
	bind(maxValues, valuesOf, united, "and", "or", "minus", "intersection", "union", "set_diff", "cast_set"),
	bind(maxValues/8, valuesOf, size, "yaml.marshal", "providers.aws.sign_req", "net.cidr_merge"),
	bind(maxValues, valuesOf, indented, "json.marshal_with_options"),
	bind(maxRead*2, "comparisons", sorted, "sort"),
	bind(maxRead, "comparisons", pairs, "strings.any_prefix_match", "strings.any_suffix_match"),
	bind(maxValues/2, "comparisons", product, "net.cidr_contains_matches"),
	bind(maxPatched, "operations × values, which each copy may double", patched, "json.patch"),
	bind(maxValues, "addresses", addresses, "net.cidr_expand"),
}

// weight is how much is in values, counted as a tree: what is in two places counts
// twice, as it does for those who walk or write it. A request can so make a small
// document heavy by naming one part many times; its true size would not show that.
type weight struct {
	values, text, depth int
	// fractions are the numbers that are compared about thirty times as slowly as others:
	// those of more than 15 digits. Digits are those of long numbers.
	fractions, digits int
}

// scale walks values until they are heavier than a limit. Scales are pooled, as their
// closure would otherwise be allocated for each call of a built-in.
type scale struct {
	weight
	most, depth int
	// entry is a method, made once.
	entry func(key, value *ast.Term) bool
}

var scales = sync.Pool{New: func() any {
	s := &scale{}
	s.entry = func(key, value *ast.Term) bool { return s.add(key) || s.add(value) }
	return s
}}

// weighed weighs terms. It stops when there are more than most values, or bytes of text.
func weighed(terms []*ast.Term, most int) weight {
	if len(terms) == 1 {
		if s, ok := terms[0].Value.(ast.String); ok {
			return weight{values: 1, text: len(s)}
		}
	}
	s := scales.Get().(*scale)
	s.weight, s.most, s.depth = weight{}, most, 0
	for _, t := range terms {
		if s.add(t) {
			break
		}
	}
	found := s.weight
	scales.Put(s) // from here on it is somebody else's
	return found
}

// add adds a term with all that is in it. It returns true when it is enough.
func (s *scale) add(t *ast.Term) (enough bool) {
	s.values++
	if n := lengthOf(t); n > s.most-s.values {
		// Not even looked at: sets are put in order by anyone who looks at them.
		s.values += n
		return true
	}
	switch v := t.Value.(type) {
	case ast.String:
		s.text += len(v)
	case ast.Number:
		s.text += len(v)
		if len(v) > 15 {
			s.fractions++
		}
		s.digits += Digits(string(v))
	case *ast.Array, ast.Object, ast.Set:
		s.depth++
		s.weight.depth = max(s.weight.depth, s.depth)
		s.addElements(v)
		s.depth--
	}
	return s.values > s.most || s.text > s.most*64
}

// addElements adds what is in a collection until it is enough.
func (s *scale) addElements(collection ast.Value) {
	switch v := collection.(type) {
	case *ast.Array:
		for i := range v.Len() {
			if s.add(v.Elem(i)) {
				return
			}
		}
	case ast.Object:
		v.Until(s.entry)
	case ast.Set:
		for _, element := range v.Slice() {
			if s.add(element) {
				return
			}
		}
	}
}

// size is how many values the operands are.
func size(operands []*ast.Term) int {
	w := weighed(operands, maxRead)
	return w.values + w.text/64
}

// compared is how many values the operands are, where they are compared with others.
func compared(operands []*ast.Term) int {
	w := weighed(operands, maxRead)
	return w.values + w.text/64 + 30*w.fractions + w.digits
}

// fewElements is how many elements a set may have that are all compared with each other.
const fewElements = 256

// united is compared, for those who make sets of sets: elements with the same hash are
// compared one by one. In OPA that of a number is its integral part, and that of an array
// is a sum, so that a request can have as many of one hash as it likes.
func united(operands []*ast.Term) int {
	cost := max(compared(operands), digits(operands)*(maxValues/MaxDigits))
	for _, o := range operands {
		if cost > maxValues {
			return cost
		}
		cost += collisions(o)
		if sets, ok := o.Value.(ast.Set); ok && sets.Len() <= fewElements {
			for _, inner := range sets.Slice() {
				cost += collisions(inner)
			}
		}
	}
	return cost
}

// collisions is how many elements of a set are compared with each other, each three times
// being worth one value.
func collisions(t *ast.Term) (n int) {
	var elements []*ast.Term
	switch v := t.Value.(type) {
	case ast.Set:
		if v.Len() > fewElements {
			elements = v.Slice()
		}
	case *ast.Array:
		if v.Len() > fewElements {
			v.Foreach(func(e *ast.Term) { elements = append(elements, e) })
		}
	}
	if elements == nil {
		return 0
	}
	of := make(map[int]int, len(elements))
	for _, e := range elements {
		hash := e.Hash()
		n += of[hash]
		of[hash]++
	}
	return n / 3
}

// indented is how many values json.marshal_with_options writes, with the space before
// each.
func indented(operands []*ast.Term) int {
	w := weighed(operands[:1], maxValues)
	space := 0
	if options, ok := operands[1].Value.(ast.Object); ok {
		options.Foreach(func(_, v *ast.Term) { space = max(space, length(v)) })
	}
	return w.values + w.text/64 + w.values*space*(w.depth+1)/64
}

// sorted is how many values are compared to sort: n × log n of them.
func sorted(operands []*ast.Term) int {
	n := lengthOf(operands[0])
	return compared(operands[:1]) * bits.Len(uint(n))
}

// pairs is how many texts are compared: each text with some of the others.
func pairs(operands []*ast.Term) int {
	return compared(operands[:2]) * bits.Len(uint(lengthOf(operands[0])+lengthOf(operands[1]))) / 2
}

// product is how often one is compared with each of the others.
func product(operands []*ast.Term) int {
	return max(lengthOf(operands[0]), 1) * max(lengthOf(operands[1]), 1)
}

// patched is at most how many values the operations of a patch go through, one after the other. Each copy may
// double the document, so that sixty of them would not fit into any memory. A document that is too large to be
// made is too large to be patched.
func patched(operands []*ast.Term) int {
	operations, ok := operands[1].Value.(*ast.Array)
	if !ok {
		return 0
	}
	values := size(operands[:2])
	cost := max(values*operations.Len(), values*(maxPatched/maxValues))
	for i := range operations.Len() {
		if o, ok := operations.Elem(i).Value.(ast.Object); ok && cost <= maxPatched {
			if name := o.Get(op); name != nil && name.Equal(copying) {
				cost *= 2
			}
		}
	}
	return cost
}

var op, copying = ast.StringTerm("op"), ast.StringTerm("copy")

// inArray is how many elements are compared to find an array in another.
func inArray(array, other *ast.Term) int {
	_, ok1 := array.Value.(*ast.Array)
	_, ok2 := other.Value.(*ast.Array)
	if !ok1 || !ok2 {
		return 0
	}
	return lengthOf(array) * lengthOf(other)
}

// lengthOf is how many elements a collection has.
func lengthOf(t *ast.Term) int {
	switch v := t.Value.(type) {
	case *ast.Array:
		return v.Len()
	case ast.Set:
		return v.Len()
	case ast.Object:
		return v.Len()
	}
	return 0
}

// addresses is how many addresses a network has, as far as that matters; 0 for what is no network, which OPA's
// function refuses at once.
func addresses(operands []*ast.Term) int {
	prefix, err := netip.ParsePrefix(str(operands[0]))
	if err != nil {
		return 0
	}
	return 1 << min(prefix.Addr().BitLen()-prefix.Bits(), 20)
}

// TooLarge reports whether a value is larger than what a decision can be made of, as a
// tree: to copy it would take too long, or too much memory.
func TooLarge(t *ast.Term) bool {
	switch t.Value.(type) {
	case *ast.Array, ast.Object, ast.Set:
		return size([]*ast.Term{t}) > maxRead
	}
	return false
}

// walk has OPA's walk look at the deadline at each value: what does not match the pattern
// that it is asked for is no step of the evaluation.
func walk(original topdown.BuiltinFunc) topdown.BuiltinFunc {
	return func(bctx topdown.BuiltinContext, operands []*ast.Term, iter func(*ast.Term) error) error {
		return original(bctx, operands, func(found *ast.Term) error {
			if isCancelled(bctx) {
				return cancelled(bctx, ast.WalkBuiltin.Name)
			}
			return iter(found)
		})
	}
}
