package candidates

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

const (
	// mostLengths is how many lengths of prefixes are looked up for one key, and
	// mostWanted how many keys together. Beyond these, trying the entries is as fast as
	// the look-ups.
	mostLengths, mostWanted = 64, 16
	// mostMerged is how many entries are put in order for one loop: a loop that ends at
	// its first entry should not pay for sorting thousands.
	mostMerged = 64
)

// postings are the entries of a collection by the strings that a field of them has. An
// entry is its position in the order of the collection.
//
//	rules: [{"method": "GET"}, {"method": "PUT"}, {"method": "GET"}]
//	by:    "GET" → [0, 2], "PUT" → [1]
//
// A prefix is found by cutting the key to each length that a prefix has.
type postings struct {
	// by :: string → entries.
	by map[string][]int
	// others have collections that are not of strings alone.
	others []int
	// lengths are those of the strings, in ascending order.
	lengths []int
	// expected is about how many entries have to be tried for one key, if keys are as
	// frequent as the strings.
	expected float64
}

// add takes the field of one entry. Entries are added in order, so each list is sorted.
func (f *postings) add(entry int, field ast.Value, kind fieldKind) {
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
		if had := f.by[s]; len(had) == 0 || had[len(had)-1] != entry {
			f.by[s] = append(had, entry)
		}
	}
}

// measure finds out what a look-up costs, once all of so many entries are added. A
// string with n entries is asked for n times as often and gives n: hence the squares.
func (f *postings) measure(of int) {
	squares, total := 0, 0
	for s, entries := range f.by {
		squares += len(entries) * len(entries)
		total += len(entries)
		f.lengths = append(f.lengths, len(s))
	}
	slices.Sort(f.lengths)
	f.lengths = slices.Compact(f.lengths)
	f.expected = float64(squares)/float64(max(total, 1)) + float64(len(f.others))
	if len(f.lengths) > mostLengths {
		f.expected = float64(of)
	}
}

// candidates returns the entries that can fulfil the condition, in their order. It
// returns false if that is not known of a key, or not at little cost.
func (f *postings) candidates(kind fieldKind, key ast.Value) (entries []int, ok bool) {
	if kind == fieldIn {
		if size(key) > mostWanted {
			return nil, false
		}
		wanted, ok := stringsOf(key)
		if !ok {
			return nil, false
		}
		slices.Sort(wanted)
		return f.merged(slices.Compact(wanted), nil)
	}
	s, ok := key.(ast.String)
	if !ok {
		return nil, false
	}
	switch kind {
	case fieldPrefix:
		prefixes := make([]string, 0, 8)
		for _, n := range f.lengths {
			if n > len(s) {
				break
			}
			prefixes = append(prefixes, string(s[:n]))
		}
		return f.merged(prefixes, nil)
	case fieldMember:
		return f.merged([]string{string(s)}, f.others)
	}
	return f.by[string(s)], true
}

// merged returns the entries of different strings, and others, in ascending order:
// which of several entries ends an evaluation first, by a value or by an error, has to
// be as if all were tried. It returns false if there are many: then the first may end
// it before all are in order.
func (f *postings) merged(strings []string, others []int) ([]int, bool) {
	lists := make([][]int, 0, 8)
	n := 0
	for _, s := range strings {
		if entries := f.by[s]; len(entries) > 0 {
			lists = append(lists, entries)
			n += len(entries)
		}
	}
	if len(others) > 0 {
		lists = append(lists, others)
		n += len(others)
	}
	switch {
	case len(lists) == 0:
		return nil, true
	case len(lists) == 1:
		return lists[0], true
	case n > mostMerged:
		return nil, false
	}
	all := slices.Concat(lists...)
	slices.Sort(all)
	return slices.Compact(all), true
}

// stringsOf returns the elements of a collection, if all are strings. Another element
// could equal a key that is not a string, which no index by strings finds.
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
	return out, ok
}
