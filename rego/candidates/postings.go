package candidates

import (
	"cmp"
	"maps"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// postings are the entries of a collection by the strings that a field of them has. Each
// list is in the order of the collection: which of several entries ends an evaluation
// first, by a value or by an error, has to be as if all were tried.
//
//	rules: [{"method": "GET"}, {"method": "PUT"}, {"method": "GET"}]
//	by:    "GET" → [0, 2], "PUT" → [1]
//
// An entry without the field, or with one of another type, is in none: no string equals it.
// Postings are immutable once they are made.
type postings struct {
	// by :: string → entries.
	by map[string][]entry
	// lengths are those of the strings in ascending order, if they are prefixes.
	lengths []int
	// size is how many entries the collection has, and longest how many the longest list.
	size, longest int
}

// entry is one of a collection: its place in the order of that, its key and its value.
type entry struct {
	place      int
	key, value *ast.Term
}

// entriesOf returns all entries of a collection; none of another value.
func entriesOf(v ast.Value) (out []entry) {
	add := func(key, value *ast.Term) { out = append(out, entry{len(out), key, value}) }
	switch v := v.(type) {
	case *ast.Array:
		for i := range v.Len() {
			add(ast.InternedTerm(i), v.Elem(i))
		}
	case ast.Object:
		v.Foreach(add)
	case ast.Set:
		v.Foreach(func(element *ast.Term) { add(element, element) })
	}
	return out
}

// newPostings indexes a collection for conditions of a kind about a field. It takes what it
// looks at and what it keeps off the budget, and ends soon after that is used up.
func newPostings(collection ast.Value, kind kind, field ast.Ref, budget *int) *postings {
	entries := entriesOf(collection)
	p := &postings{by: make(map[string][]entry), size: len(entries)}
	for _, e := range entries {
		if *budget--; *budget < 0 {
			return p
		}
		value, err := e.value.Value.Find(field)
		switch {
		case err != nil:
		case kind == member:
			for _, element := range entriesOf(value) {
				*budget--
				p.add(element.value.Value, e)
			}
		default:
			p.add(value, e)
		}
	}
	if kind == prefix {
		p.nest(budget)
	}
	for _, entries := range p.by {
		p.longest = max(p.longest, len(entries))
	}
	return p
}

// add adds the next entry under a value, if that is a string; once, if it comes again.
func (p *postings) add(value ast.Value, e entry) {
	text, ok := value.(ast.String)
	if had := p.by[string(text)]; ok && (len(had) == 0 || had[len(had)-1] != e) {
		p.by[string(text)] = append(had, e)
	}
}

// nest adds to each prefix the entries of those with which it begins itself: then the
// longest prefix of a key has the entries of all. In their order "/a" comes before "/a/b",
// so the longest of those has got its own already.
func (p *postings) nest(budget *int) {
	texts := slices.Sorted(maps.Keys(p.by))
	for _, text := range texts {
		p.lengths = append(p.lengths, len(text))
	}
	slices.Sort(p.lengths)
	p.lengths = slices.Compact(p.lengths)
	for _, text := range texts {
		if text != "" && *budget > 0 {
			all := slices.Concat(p.longestOf(text[:len(text)-1]), p.by[text])
			slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.place, b.place) })
			p.by[text] = all
			*budget -= len(all)
		}
	}
}

// longestOf returns the entries of the longest prefix that a text has.
func (p *postings) longestOf(text string) []entry {
	for _, n := range slices.Backward(p.lengths) {
		if n <= len(text) && p.by[text[:n]] != nil {
			return p.by[text[:n]]
		}
	}
	return nil
}
