package candidates

import (
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"understudy/rego/instrument"
)

// index finds the candidates of a loop: the entries of collections that can fulfil its
// condition. One loop may run over several collections (data.rules[tenant], for each
// tenant). It is immutable, and is used by evaluations in any number of goroutines.
type index struct {
	condition
	// in :: collection, by identity → its postings. A document that is not here, such as
	// one that `with` put in the place of another, is tried as a whole.
	in map[ast.Value]*postings
}

// candidates implements topdown.BuiltinFunc: it calls iter for the key of each
// candidate, in the order of the collection. Where nothing can be said, it calls it for
// every key: that is always right, only slower. A key that is no string could equal a field
// that is none either.
func (x *index) candidates(bctx topdown.BuiltinContext, operands []*ast.Term, iter func(*ast.Term) error) error {
	postings, indexed := x.in[operands[0].Value]
	key, isString := operands[1].Value.(ast.String)
	var candidates []entry
	switch {
	case !indexed || !isString || instrument.Of(bctx) == nil: // the last: OPA alone is asked for
		candidates = entriesOf(operands[0].Value)
	case x.kind == prefix:
		candidates = postings.longestOf(string(key))
	default:
		candidates = postings.by[string(key)]
	}
	for _, e := range candidates {
		if err := iter(e.key); err != nil {
			return err
		}
	}
	return nil
}

const (
	// indexUpTo is how much of the data is looked at to make the indexes of a program, in
	// entries and elements of their fields: they cost memory, and time of every
	// compilation. Beyond it, loops stay as they are.
	indexUpTo = 500_000
	// indexFrom is how many entries a collection has to have: with fewer, trying them
	// is faster than a look-up.
	indexFrom = 16
)

// indexer makes the indexes of a program's data. What one loop needs serves the others:
// rules often loop over the same table by the same fields. It is used by one goroutine,
// while a program is compiled.
type indexer struct {
	// budget is how much may still be looked at.
	budget int
	// made are the postings so far.
	made map[source]*postings
}

// source is what postings are made of.
type source struct {
	collection ast.Value // by identity
	kind       kind
	field      string
}

// best returns the index by which the fewest entries are left to try if each collection is
// asked for its most frequent string; nil if that is more than half of all: the look-up
// costs some expressions, which have to pay off.
func (x *indexer) best(collections []ast.Value, conditions []condition) (best *index) {
	fewest := 0
	for _, c := range conditions {
		index := &index{c, make(map[ast.Value]*postings)}
		largest, total, left := 0, 0, 0
		for _, collection := range collections {
			p := x.postings(collection, c)
			if x.budget < 0 {
				return nil
			}
			index.in[collection] = p
			largest, total, left = max(largest, p.size), total+p.size, left+p.longest
		}
		if largest >= indexFrom && left <= total/2 && (best == nil || left < fewest) {
			best, fewest = index, left
		}
	}
	return best
}

// postings returns those of a collection for a condition. They are incomplete if the
// budget was not enough.
func (x *indexer) postings(collection ast.Value, c condition) *postings {
	from := source{collection, c.kind, ast.NewArray(c.field...).String()}
	if x.made[from] == nil {
		x.made[from] = newPostings(collection, c.kind, c.field, &x.budget)
	}
	return x.made[from]
}
