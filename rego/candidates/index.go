package candidates

import (
	"cmp"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/types"

	"understudy/rego/instrument"
)

const (
	// indexFrom is how many entries a collection has to have: with fewer, trying them
	// is faster than a look-up.
	indexFrom = 16
	// indexKeys is how many conditions of a loop are looked up. Each costs an
	// expression.
	indexKeys = 2
	// fewEnough is how many entries are not worth another look-up.
	fewEnough = 4
)

// index finds the candidates of a loop: the entries of collections that can fulfil its
// conditions. One loop may run over several collections (data.rules[tenant], for each
// tenant). It is immutable, and is used by evaluations in any number of goroutines.
type index struct {
	conditions []condition
	// in :: collection, by identity → what is known of it. A document that is not here,
	// such as one that `with` put in the place of another, is tried as a whole.
	in map[ast.Value]indexed
}

// indexed is a collection, as one loop looks for its entries.
type indexed struct {
	keys []*ast.Term
	// fields are in the order of the conditions.
	fields []*postings
}

// indexOf returns the index that leaves out the most entries of a loop, nil if none
// leaves out half of them: the look-up costs some expressions, which have to pay off.
// An index beyond the budget is not made, and its loop stays as it is.
func (x *indexer) indexOf(l *loop) *index {
	collections := x.collections(l.collection())
	useful := x.useful(collections, l.conditions)
	if len(useful) == 0 || !x.spend(len(collections)) {
		return nil
	}
	out := &index{conditions: useful, in: make(map[ast.Value]indexed)}
	for _, c := range collections {
		known := indexed{keys: c.keys}
		for _, condition := range useful {
			known.fields = append(known.fields, x.field(c, condition))
		}
		out.in[c.value] = known
	}
	return out
}

// useful returns the conditions that leave out the most, best first. It compares what
// is expected of the indexes, summed over all collections of the loop.
func (x *indexer) useful(collections []*collection, conditions []condition) []condition {
	entries := 0
	for _, c := range collections {
		entries += len(c.keys)
	}
	type rated struct {
		condition
		expected float64
	}
	var out []rated
	for _, condition := range conditions {
		if !x.spend(len(collections)) {
			return nil
		}
		expected := 0.0
		for _, c := range collections {
			f := x.field(c, condition)
			if f == nil {
				return nil
			}
			expected += f.expected
		}
		if entries > 0 && expected <= float64(entries)/2 {
			out = append(out, rated{condition, expected})
		}
	}
	slices.SortStableFunc(out, func(a, b rated) int { return cmp.Compare(a.expected, b.expected) })
	var best []condition
	for _, r := range out[:min(len(out), indexKeys)] {
		best = append(best, r.condition)
	}
	return best
}

// expression binds its last operand to the candidates of the collection that is its
// first. The operands between them are the keys, in the order of the conditions.
func (x *index) expression(builtins *instrument.Builtins, operands []*ast.Term) *ast.Expr {
	args := slices.Repeat([]types.Type{types.A}, len(operands)-1)
	return builtins.Add(types.NewFunction(args, types.A), x.candidates).Expr(operands...)
}

// candidates implements topdown.BuiltinFunc: it calls iter for the key of each
// candidate, in the order of the collection. Where nothing can be said, it calls it for
// every key: that is always right, only slower.
func (x *index) candidates(bctx topdown.BuiltinContext, operands []*ast.Term, iter func(*ast.Term) error) error {
	collection := operands[0].Value
	var known indexed
	if instrument.Of(bctx) != nil { // else OPA alone is asked for
		known = x.find(collection)
	}
	entries, ok := x.fewest(known, operands[1:])
	if !ok {
		return eachEntry(collection, func(key, _ *ast.Term) error { return iter(key) })
	}
	for _, entry := range entries {
		if err := iter(known.keys[entry]); err != nil {
			return err
		}
	}
	return nil
}

// find returns what is known of a collection: nothing if it is not indexed. Look-up is
// by identity, so it costs nothing for large collections, and a copy is never taken for
// the original.
func (x *index) find(collection ast.Value) indexed {
	switch collection.(type) {
	case *ast.Array, ast.Object: // which are pointers, and can be looked up
		return x.in[collection]
	}
	return indexed{}
}

// fewest returns a short list of entries to try, false if all have to be. Every list
// has all entries that can fulfil the loop, so any one of them will do; the shortest
// spares the most.
func (x *index) fewest(of indexed, keys []*ast.Term) (best []int, found bool) {
	for i, f := range of.fields {
		entries, ok := f.candidates(x.conditions[i].kind, keys[i].Value)
		if ok && (!found || len(entries) < len(best)) {
			best, found = entries, true
		}
		if found && len(best) <= fewEnough {
			break
		}
	}
	return best, found
}

// size is how many entries a collection has.
func size(v ast.Value) int {
	switch v := v.(type) {
	case *ast.Array:
		return v.Len()
	case ast.Object:
		return v.Len()
	case ast.Set:
		return v.Len()
	}
	return 0
}

// eachEntry calls f for the keys and values of a collection, until one fails.
func eachEntry(v ast.Value, f func(key, value *ast.Term) error) error {
	switch v := v.(type) {
	case *ast.Array:
		for i := range v.Len() {
			if err := f(ast.InternedTerm(i), v.Elem(i)); err != nil {
				return err
			}
		}
	case ast.Object:
		return v.Iter(f)
	case ast.Set:
		return v.Iter(func(element *ast.Term) error { return f(element, element) })
	}
	return nil
}
