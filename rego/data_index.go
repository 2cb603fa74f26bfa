package rego

import (
	"cmp"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/types"
)

const (
	// indexFrom is how many entries a collection has to have: fewer are tried sooner
	// than looked up.
	indexFrom = 16
	// indexUpTo is how many entries are looked at to make the indexes of a program: they
	// cost memory, and time of every compilation.
	indexUpTo = 500_000
	// indexKeys is how many conditions of a loop are looked up. Each costs an
	// expression.
	indexKeys = 2
)

// dataIndex finds the entries of collections that can fulfil the conditions of a loop.
// It is immutable.
type dataIndex struct {
	*collections
	conditions []condition
	// fields are in the order of the conditions.
	fields []*fieldIndex
}

// collections are the arrays and objects that a reference can lead to, without those
// that are too small.
type collections struct {
	// entries :: collection, by identity → its keys. A document that is not here, such
	// as one that `with` put in the place of another, is tried as a whole.
	entries map[ast.Value][]*ast.Term
	// size is how many entries there are in all.
	size int
	// fields are what was indexed of them.
	fields map[string]*fieldIndex
}

func newCollections(documents []ast.Value, budget *int) *collections {
	c := &collections{entries: make(map[ast.Value][]*ast.Term), fields: make(map[string]*fieldIndex)}
	for _, document := range documents {
		if size(document) < indexFrom {
			continue
		}
		if *budget -= size(document); *budget < 0 {
			break
		}
		var keys []*ast.Term
		_ = eachEntry(document, func(key, _ *ast.Term) error {
			keys = append(keys, key)
			return nil
		})
		c.entries[document] = keys
		c.size += len(keys)
	}
	return c
}

// fieldIndex tells by the strings of a field which entries have them.
type fieldIndex struct {
	kind fieldKind
	// in :: collection, by identity → the strings of its entries.
	in map[ast.Value]*fieldStrings
	// expected is about how many entries have to be tried for one key in each
	// collection, if keys are as frequent as the strings.
	expected float64
}

// fieldStrings is the index of one collection.
type fieldStrings struct {
	// by :: string → entries.
	by map[string][]int
	// others have collections that are not of strings alone.
	others []int
	// lengths are those of the strings, in ascending order.
	lengths []int
}

// index returns the index that leaves out the most entries, nil if none leaves out
// half of them. It takes what it costs from the budget.
func (c *collections) index(conditions []condition, budget *int) *dataIndex {
	if c.size == 0 {
		return nil
	}
	var useful []condition
	for _, condition := range conditions {
		if f := c.field(condition, budget); f != nil && f.expected <= float64(c.size)/2 {
			useful = append(useful, condition)
		}
	}
	if len(useful) == 0 {
		return nil
	}
	expected := func(condition condition) float64 { return c.field(condition, budget).expected }
	slices.SortStableFunc(useful, func(a, b condition) int { return cmp.Compare(expected(a), expected(b)) })
	out := &dataIndex{collections: c, conditions: useful[:min(len(useful), indexKeys)]}
	for _, condition := range out.conditions {
		out.fields = append(out.fields, c.field(condition, budget))
	}
	return out
}

// field returns the index for a condition, nil if the budget is used up.
func (c *collections) field(condition condition, budget *int) *fieldIndex {
	name := string(condition.kind) + " " + condition.field.String()
	if f, ok := c.fields[name]; ok {
		return f
	}
	if *budget -= c.size; *budget < 0 {
		return nil
	}
	f := &fieldIndex{kind: condition.kind, in: make(map[ast.Value]*fieldStrings)}
	for collection := range c.entries {
		strings := newFieldStrings(collection, condition)
		f.in[collection] = strings
		f.expected += strings.expected()
	}
	c.fields[name] = f
	return f
}

// newFieldStrings indexes a collection. An entry cannot fulfil the condition for a
// string as its key if the field is not there, or is of another type.
func newFieldStrings(collection ast.Value, c condition) *fieldStrings {
	f := &fieldStrings{by: make(map[string][]int)}
	entry := 0
	_ = eachEntry(collection, func(_, value *ast.Term) error {
		if field, err := value.Value.Find(c.field); err == nil {
			f.add(entry, field, c.kind)
		}
		entry++
		return nil
	})
	for s := range f.by {
		f.lengths = append(f.lengths, len(s))
	}
	slices.Sort(f.lengths)
	f.lengths = slices.Compact(f.lengths)
	return f
}

func (f *fieldStrings) add(entry int, field ast.Value, kind fieldKind) {
	if kind != fieldMember {
		if s, ok := field.(ast.String); ok {
			f.by[string(s)] = append(f.by[string(s)], entry)
		}
		return
	}
	strings, ok := stringsOf(field)
	if !ok {
		f.others = append(f.others, entry)
		return
	}
	for _, s := range strings {
		f.by[s] = append(f.by[s], entry)
	}
}

func (f *fieldStrings) expected() float64 {
	squares, total := 0, 0
	for _, entries := range f.by {
		squares += len(entries) * len(entries)
		total += len(entries)
	}
	return float64(squares)/float64(max(total, 1)) + float64(len(f.others))
}

// candidates returns the entries that can fulfil the condition, in their order. It
// returns false if that cannot be told of a key.
func (f *fieldStrings) candidates(kind fieldKind, key ast.Value) (entries []int, ok bool) {
	if kind == fieldAmong {
		wanted, ok := stringsOf(key)
		lists := make([][]int, 0, 8)
		for _, s := range wanted {
			lists = append(lists, f.by[s])
		}
		return merged(lists), ok
	}
	s, ok := key.(ast.String)
	switch kind {
	case fieldPrefix:
		lists := make([][]int, 0, 8)
		for _, n := range f.lengths {
			if n > len(s) {
				break
			}
			lists = append(lists, f.by[string(s[:n])])
		}
		return merged(lists), ok
	case fieldMember:
		return merged([][]int{f.by[string(s)], f.others}), ok
	}
	return f.by[string(s)], ok
}

// merged returns the entries of lists that have none in common, in ascending order:
// which of several entries ends an evaluation first, by a value or by an error, has to
// be as if all were tried.
func merged(lists [][]int) []int {
	lists = slices.DeleteFunc(lists, func(l []int) bool { return len(l) == 0 })
	switch len(lists) {
	case 0:
		return nil
	case 1:
		return lists[0]
	}
	all := slices.Concat(lists...)
	slices.Sort(all)
	return all
}

// generator is an expression that binds its last operand to the entries to try, of the
// collection that is its first.
func (s *substitutes) generator(x *dataIndex, operands []*ast.Term) *ast.Expr {
	args := slices.Repeat([]types.Type{types.A}, len(operands)-1)
	return s.add(types.NewFunction(args, types.A), x.generate).Expr(operands...)
}

// generate implements topdown.BuiltinFunc.
func (x *dataIndex) generate(bctx topdown.BuiltinContext, operands []*ast.Term, iter func(*ast.Term) error) error {
	collection := operands[0].Value
	all := func() error { return eachEntry(collection, func(key, _ *ast.Term) error { return iter(key) }) }
	keys := x.find(collection)
	if keys == nil || horizonOf(bctx) == nil {
		return all()
	}
	entries, ok := x.fewest(collection, operands[1:])
	if !ok {
		return all()
	}
	for _, entry := range entries {
		if err := iter(keys[entry]); err != nil {
			return err
		}
	}
	return nil
}

// find returns the keys of a collection.
func (c *collections) find(collection ast.Value) []*ast.Term {
	switch collection.(type) {
	case *ast.Array, ast.Object: // which are pointers, and can be looked up
		return c.entries[collection]
	}
	return nil
}

// fewest returns the shortest list of entries to try, false if all have to be.
func (x *dataIndex) fewest(collection ast.Value, keys []*ast.Term) (best []int, found bool) {
	for i, f := range x.fields {
		entries, ok := f.in[collection].candidates(f.kind, keys[i].Value)
		if ok && (!found || len(entries) < len(best)) {
			best, found = entries, true
		}
	}
	return best, found
}

// stringsOf returns the different elements of a collection, if all are strings.
func stringsOf(v ast.Value) (out []string, ok bool) {
	switch v.(type) {
	case *ast.Array, ast.Object, ast.Set:
	default:
		return nil, false
	}
	ok = true
	_ = eachEntry(v, func(_, element *ast.Term) error {
		s, is := element.Value.(ast.String)
		ok = ok && is
		out = append(out, string(s))
		return nil
	})
	slices.Sort(out)
	return slices.Compact(out), ok
}

// size is how many entries a collection has.
func size(v ast.Value) int {
	switch v := v.(type) {
	case *ast.Array:
		return v.Len()
	case ast.Object:
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
