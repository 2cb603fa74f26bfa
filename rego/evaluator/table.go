package evaluator

import "understudy/rego/opaque"

// table maps lists of values to values. Lists are equal if it is known that their values are. The zero table is
// empty.
type table[V any] struct {
	// entries are in the order in which they were added.
	entries []entry[V]
	// last :: hash of a list → one more than the index of the last entry with that hash.
	last map[int]int
}

// entry is one list with its value.
type entry[V any] struct {
	terms []opaque.Value
	value V
	// before is one more than the index of the entry before it with the same hash; 0 if there is none.
	before int
}

// find returns the value of a list, and whether the table has the list.
func (t *table[V]) find(terms []opaque.Value) (value V, ok bool) {
	for i := t.last[hash(terms)]; i > 0; i = t.entries[i-1].before {
		if e := &t.entries[i-1]; equalTerms(e.terms, terms) {
			return e.value, true
		}
	}
	return value, false
}

// add adds a list that the table does not have. It makes no copy of the list.
func (t *table[V]) add(terms []opaque.Value, value V) {
	if t.last == nil {
		t.last = make(map[int]int)
	}
	h := hash(terms)
	t.entries = append(t.entries, entry[V]{terms, value, t.last[h]})
	t.last[h] = len(t.entries)
}

// mostKept is how many entries an empty table has room for at most.
const mostKept = 1024

// reset empties the table. It keeps its memory for the next evaluation, unless that is much.
func (t *table[V]) reset() {
	if len(t.entries) == 0 {
		return
	}
	if cap(t.entries) > mostKept {
		*t = table[V]{}
		return
	}
	clear(t.entries)
	clear(t.last)
	t.entries = t.entries[:0]
}

func hash(terms []opaque.Value) (h int) {
	for _, t := range terms {
		h = h*31 + t.Hash()
	}
	return h
}

func equalTerms(a, b []opaque.Value) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !a[i].Equals(b[i]) {
			return false
		}
	}
	return true
}
