package evaluator

import "understudy/rego/opaque"

// table maps lists of values to values. Lists are equal if it is known that their values are. The zero table is
// empty.
type table[V any] struct {
	entries map[int][]entry[V]
}

// entry is one list with its value.
type entry[V any] struct {
	terms []opaque.Value
	value V
}

// find returns the value of a list, and whether the table has the list.
func (t *table[V]) find(terms []opaque.Value) (value V, ok bool) {
	for _, e := range t.entries[hash(terms)] {
		if equalTerms(e.terms, terms) {
			return e.value, true
		}
	}
	return value, false
}

// add adds a list that the table does not have. It makes no copy of the list.
func (t *table[V]) add(terms []opaque.Value, value V) {
	if t.entries == nil {
		t.entries = make(map[int][]entry[V])
	}
	h := hash(terms)
	t.entries[h] = append(t.entries[h], entry[V]{terms, value})
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
