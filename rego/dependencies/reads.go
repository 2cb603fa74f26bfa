package dependencies

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Reads is the read set of a rule: the paths below `input` that its evaluation can look
// at. Whatever else stands in the input document, the value of the rule is the same. It
// is a tree of names, immutable once it is handed out, and safe for concurrent use.
//
//	input.attributes.request.http.method == "GET"; input.parsed_path[0] == "api"
//	{"attributes": {"request": {"http": {"method": whole}}}, "parsed_path": {0: whole}}
//
// Its soundness is what cached decisions rest on: a path that is missing here would be
// a wrong decision. What the analysis does not understand widens the set. There may be
// observations beside the names (observations.go).
type Reads struct {
	// whole says that everything at and below this path is read.
	whole bool
	// exists says that it matters whether there is something at this path.
	exists bool
	// children :: name → what is read below it. Empty if whole.
	children map[string]*Reads
}

// ReadsEverything is the read set of a rule that looks at the whole input.
var ReadsEverything = &Reads{whole: true}

// ReadsAt is the read set of what looks at everything at and below one path, given by
// its names.
func ReadsAt(path ...string) *Reads {
	out := &Reads{}
	out.addWhole(path)
	return out
}

// Whole reports whether everything at and below this path is read, if only to find out
// what is observed of it.
func (r *Reads) Whole() bool { return r != nil && (r.whole || r.observed()) }

// Exists reports whether it matters that there is something at this path at all.
func (r *Reads) Exists() bool { return r != nil && (r.exists || r.Whole()) }

// Child returns what is read below a name; nil if nothing is.
func (r *Reads) Child(name string) *Reads {
	switch {
	case r == nil:
		return nil
	case r.Whole():
		return ReadsEverything
	}
	return r.children[name]
}

// Names returns the names below this path that are read, sorted. It is empty if the
// path is read whole. The elements of an array have names too, those of IndexName.
func (r *Reads) Names() []string {
	if r == nil || r.observed() {
		return nil
	}
	return slices.Sorted(maps.Keys(r.children))
}

// IndexName is the name by which an element of an array is read. A field of an object
// that had such a name would be read with all others.
func IndexName(i int) string { return indexPrefix + strconv.Itoa(i) }

// Element is an element of an array that is read.
type Element struct {
	Index int
	Reads *Reads
}

// Elements returns the elements of an array that are read, in order, and whether its length
// is. It reports false if anything else is, or all.
func (r *Reads) Elements() (out []Element, length, ok bool) {
	if r == nil || r.whole {
		return nil, false, false
	}
	for name, child := range r.children {
		i, err := strconv.Atoi(strings.TrimPrefix(name, indexPrefix))
		switch {
		case name == lengthName:
			length = true
		case err != nil || name != IndexName(i):
			return nil, false, false
		case child.Whole():
			out = append(out, Element{i, child})
		default:
			out = append(out, Element{i, ReadsEverything})
		}
	}
	slices.SortFunc(out, func(a, b Element) int { return a.Index - b.Index })
	return out, length, true
}

// String returns a canonical form: two sets are equal exactly if their strings are. It
// is a key of caches, and the form in which a read set goes to another process
// ([ParseReads]).
func (r *Reads) String() string {
	var b strings.Builder
	r.write(&b)
	return b.String()
}

func (r *Reads) write(b *strings.Builder) {
	switch {
	case r.whole:
		b.WriteByte('*')
		return
	case r.exists:
		b.WriteByte('?')
	}
	if len(r.children) > 0 {
		b.WriteByte('{')
		for _, name := range slices.Sorted(maps.Keys(r.children)) {
			b.WriteString(strconv.Quote(name))
			r.children[name].write(b)
		}
		b.WriteByte('}')
	}
}

// Union returns the read set of rules that are evaluated on one input, such as all Rego
// rules of one policy.
func (r *Reads) Union(other *Reads) *Reads {
	out := &Reads{}
	out.merge(r)
	out.merge(other)
	return out
}

func (r *Reads) merge(other *Reads) {
	switch {
	case other == nil || r.whole:
		return
	case other.whole:
		r.whole, r.exists, r.children = true, false, nil
		return
	}
	r.exists = r.exists || other.exists
	for name, child := range other.children {
		r.below(name).merge(child)
	}
}

// below returns the node of a name, made if it is not there. Below a path that is
// read whole there is nothing to note.
func (r *Reads) below(name string) *Reads {
	if r.whole {
		return &Reads{}
	}
	if r.children == nil {
		r.children = make(map[string]*Reads)
	}
	child := r.children[name]
	if child == nil {
		child = &Reads{}
		r.children[name] = child
	}
	return child
}

// at returns the node of a path, made if it is not there.
func (r *Reads) at(path []string) *Reads {
	for _, name := range path {
		r = r.below(name)
	}
	return r
}

// addWhole notes that everything at a path is read.
func (r *Reads) addWhole(path []string) { r.at(path).merge(ReadsEverything) }

// addExists notes that it matters whether there is something at a path.
func (r *Reads) addExists(path []string) {
	if node := r.at(path); !node.whole {
		node.exists = true
	}
}
