package candidates

import "github.com/open-policy-agent/opa/v1/ast"

// indexUpTo is how much of the data is looked at to make the indexes of a program, in
// entries and strings: they cost memory, and time of every compilation. Beyond it,
// loops stay as they are; so data of any size compiles in bounded time.
const indexUpTo = 500_000

// indexer makes the indexes of a program's data. What one loop needs serves the others:
// rules often loop over the same table by the same fields. It is used by one goroutine,
// while a program is compiled; the postings that it makes are immutable afterwards.
type indexer struct {
	data ast.Value
	// budget is how much may still be looked at.
	budget int
	// known :: array or object, by identity → what is known of it.
	known map[ast.Value]*collection
	// at :: reference → the collections that it can lead to.
	at map[string][]*collection
}

// collection is an array or object of the data.
type collection struct {
	value ast.Value
	keys  []*ast.Term
	// fields :: what was asked for → its index.
	fields map[string]*postings
}

func newIndexer(data ast.Value) *indexer {
	return &indexer{
		data: data, budget: indexUpTo,
		known: make(map[ast.Value]*collection), at: make(map[string][]*collection),
	}
}

// spend reports whether the budget allows for so much more.
func (x *indexer) spend(n int) bool {
	x.budget -= n
	return x.budget >= 0
}

// collections returns the collections that a reference can lead to, without those that
// are too small. Each of its variables can be anything, so data.rules[tenant] leads to
// the table of every tenant.
func (x *indexer) collections(ref ast.Ref) []*collection {
	pattern, name := patternOf(ref)
	out, ok := x.at[name]
	if !ok {
		for _, document := range x.documents(pattern) {
			if size(document) >= indexFrom && x.spend(1) {
				out = append(out, x.collection(document))
			}
		}
		x.at[name] = out
	}
	return out
}

// patternOf returns a reference with wildcards in the place of its variables, and a
// name that no other such reference has.
func patternOf(ref ast.Ref) (ast.Ref, string) {
	pattern := ref.Copy()
	for i, step := range pattern {
		if !ast.IsScalar(step.Value) && i > 0 {
			pattern[i] = ast.Wildcard
		}
	}
	return pattern, nameOfPath(pattern)
}

// nameOfPath distinguishes what a reference writes alike, such as x[0] and x["0"].
func nameOfPath(path ast.Ref) string { return ast.NewArray(path...).String() }

// documents returns what of the data is at a reference, in which a wildcard is
// anything; nothing if that is more than the budget allows.
func (x *indexer) documents(pattern ast.Ref) []ast.Value {
	at := []ast.Value{x.data}
	for _, step := range pattern[1:] {
		var next []ast.Value
		for _, v := range at {
			cost := 1
			if step.Equal(ast.Wildcard) {
				cost += size(v)
			}
			if !x.spend(cost) {
				return nil
			}
			if step.Equal(ast.Wildcard) {
				_ = eachEntry(v, func(_, child *ast.Term) error {
					next = append(next, child.Value)
					return nil
				})
			} else if child, err := v.Find(ast.Ref{step}); err == nil {
				next = append(next, child)
			}
		}
		at = next
	}
	return at
}

// collection returns what is known of an array or object, made at the first time.
func (x *indexer) collection(document ast.Value) *collection {
	c, ok := x.known[document]
	if !ok {
		c = &collection{value: document, fields: make(map[string]*postings)}
		if x.spend(size(document)) {
			_ = eachEntry(document, func(key, _ *ast.Term) error {
				c.keys = append(c.keys, key)
				return nil
			})
		}
		x.known[document] = c
	}
	return c
}

// field returns the index of a collection for a condition, nil if that is more than the
// budget allows.
func (x *indexer) field(c *collection, condition condition) *postings {
	name := string(condition.kind) + nameOfPath(condition.field)
	f, ok := c.fields[name]
	if !ok {
		f = x.newPostings(c, condition)
		c.fields[name] = f
	}
	return f
}

// newPostings indexes a collection. An entry cannot fulfil the condition for a
// string as its key if the field is not there, or is of another type.
func (x *indexer) newPostings(c *collection, condition condition) *postings {
	if !x.spend(size(c.value)) {
		return nil
	}
	f := &postings{by: make(map[string][]int)}
	entry := 0
	_ = eachEntry(c.value, func(_, value *ast.Term) error {
		if field, err := value.Value.Find(condition.field); err == nil && x.spend(size(field)) {
			f.add(entry, field, condition.kind)
		}
		entry++
		return nil
	})
	if !x.spend(len(f.by)) {
		return nil
	}
	f.measure(entry)
	return f
}
