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
	// indexFrom is how many entries a collection has to have: fewer are tried sooner
	// than looked up.
	indexFrom = 16
	// indexKeys is how many conditions of a loop are looked up. Each costs an
	// expression.
	indexKeys = 2
	// fewEnough is how many entries are not worth another look-up.
	fewEnough = 4
)

// index finds the candidates of a loop: the entries of collections that can fulfil its
// conditions.
// It is immutable.
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
// leaves out half of them.
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

// useful returns the conditions that leave out the most.
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

// expression binds its last operand to the candidates of the collection that is its first.
func (x *index) expression(builtins *instrument.Builtins, operands []*ast.Term) *ast.Expr {
	args := slices.Repeat([]types.Type{types.A}, len(operands)-1)
	return builtins.Add(types.NewFunction(args, types.A), x.candidates).Expr(operands...)
}

// candidates implements topdown.BuiltinFunc.
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

// find returns what is known of a collection: nothing if it is not indexed.
func (x *index) find(collection ast.Value) indexed {
	switch collection.(type) {
	case *ast.Array, ast.Object: // which are pointers, and can be looked up
		return x.in[collection]
	}
	return indexed{}
}

// fewest returns a short list of entries to try, false if all have to be.
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
