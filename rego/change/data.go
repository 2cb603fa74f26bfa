package change

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/open-policy-agent/opa/v1/ast"
	"google.golang.org/protobuf/types/known/structpb"

	"understudy/rego/compile"
)

// tableFrom is from how many children that differ on a place is a table: its items are many of a kind.
const tableFrom = 9

// spot is one place of data: in an array it may be another one on each side.
type spot struct {
	// live and candidate are where it is; of a side that has nothing there, where it would be.
	live, candidate []string
	// ref is how people call it.
	ref ast.Ref
}

// root is all data.
var root = spot{ref: ast.DefaultRootRef}

// member is the place of a member of an object.
func (s spot) member(name string) spot {
	return spot{append(slices.Clip(s.live), name), append(slices.Clip(s.candidate), name), s.ref.Append(ast.StringTerm(name))}
}

// element is the place of an element of an array.
func (s spot) element(live, candidate int) spot {
	return spot{
		append(slices.Clip(s.live), strconv.Itoa(live)), append(slices.Clip(s.candidate), strconv.Itoa(candidate)),
		s.ref.Append(ast.IntNumberTerm(candidate)),
	}
}

// dataItem is a place of data that differs.
type dataItem struct {
	spot
	// name is how people call the place: that of an element is its array.
	name ast.Ref
	// live and candidate are what is there; nil if nothing is.
	live, candidate *structpb.Value
	// element says that it is an element of an array that only one side has.
	element bool
	// part says that it is in what another item has as a whole, which only one side has.
	part bool
	// renamed is the name that the live side has instead of the last of candidate.
	renamed string
	// array says that a side can get what the other one has only with the whole array, which is at spot.
	array bool
	// group are the items that belong together, as one goes and another one comes; nil if there is none.
	group *group
	table ast.Ref
}

// group are items of one object or array of which some are removed and some added: what was removed may have
// meant what was added means. A request shows one of them only if it is also decided otherwise with all of them
// taken back.
type group struct{ ids []int }

// data adds what differs in data, as far as any of the references may read it.
func (b *builder) data(live, candidate *structpb.Struct, reads []ast.Ref) {
	found := differing(root, live.GetFields(), candidate.GetFields())
	b.dataItems(slices.DeleteFunc(found, func(d dataItem) bool {
		return !slices.ContainsFunc(reads, func(r ast.Ref) bool { return mayRead(r, d.ref) })
	}), func(d dataItem) (Item, []string) {
		item := Item{Kind: Data, Path: d.name.String(), Element: d.element}
		item.Live, item.Candidate = d.texts()
		if d.table != nil {
			item.Table = d.table.String()
		}
		return item, []string{item.Path}
	}, nil, nil)
}

// mayRead reports whether a place is at, above or below a reference to data.
func mayRead(ref, place ast.Ref) bool {
	for i, t := range ref[1:] {
		if i+1 >= len(place) {
			return true
		}
		if s, ok := t.Value.(ast.String); !ok || !s.Equal(place[i+1].Value) {
			return !ok
		}
	}
	return true
}

// readFields returns the members of an object at a place that some of the references may read.
func readFields(at ast.Ref, fields map[string]*structpb.Value, reads []ast.Ref) map[string]*structpb.Value {
	out := make(map[string]*structpb.Value, len(fields))
	for name, v := range fields {
		place := at.Append(ast.StringTerm(name))
		whole, some := false, false
		for _, r := range reads {
			if mayRead(r, place) {
				some, whole = true, whole || len(r) <= len(place)
			}
		}
		switch members := v.GetStructValue().GetFields(); {
		case whole, some && members == nil:
			out[name] = v
		case some:
			out[name] = structpb.NewStructValue(&structpb.Struct{Fields: readFields(place, members, reads)})
		}
	}
	return out
}

// dataItems adds items with their edits; itemOf makes one, with what it is known by next to what differs. The places are
// below live and candidate in the data of the sides.
func (b *builder) dataItems(found []dataItem, itemOf func(dataItem) (Item, []string), live, candidate []string) {
	for _, d := range found {
		d.spot.live, d.spot.candidate = slices.Concat(live, d.spot.live), slices.Concat(candidate, d.spot.candidate)
		if d.array {
			b.whole(d)
			continue
		}
		item, known := itemOf(d)
		item.Side = d.side()
		place := b.add(item, append(known, d.renamed, identity(d.live), identity(d.candidate))...)
		if place < 0 {
			continue
		}
		b.take(place, d)
		if d.group != nil {
			d.group.ids = append(d.group.ids, place)
		}
	}
	for _, d := range found {
		if d.group != nil {
			b.out.Live.together(d.group)
			b.out.Candidate.together(d.group)
			d.group = nil
		}
	}
}

// whole has an array as the other side has it, which belongs to no item of its own.
func (b *builder) whole(d dataItem) {
	id := b.unlisted()
	b.out.Candidate.Edits = append(b.out.Candidate.Edits, Edit{Item: id, Path: d.spot.candidate, Value: astOf(d.live), Others: true})
	b.out.Live.Edits = append(b.out.Live.Edits, Edit{Item: id, Path: d.spot.live, Value: astOf(d.candidate), Others: true})
	if d.group != nil {
		d.group.ids = append(d.group.ids, id)
	}
}

// together notes that items are taken back together.
func (h *Half) together(g *group) {
	for _, id := range g.ids {
		if id >= 0 {
			if h.Groups == nil {
				h.Groups = make(map[int][]int)
			}
			h.Groups[id] = g.ids
		}
	}
}

func (d dataItem) side() Side {
	switch {
	case d.live == nil:
		return Candidate
	case d.candidate == nil:
		return Live
	default:
		return Both
	}
}

// take adds the edits by which each side has what the other one has.
func (b *builder) take(place int, d dataItem) {
	b.out.Candidate.take(place, d, d.spot.candidate, d.candidate, d.live)
	b.out.Live.take(place, d, d.spot.live, d.live, d.candidate)
}

// take adds the edit by which a side that has mine at a path has what the other one has there.
func (h *Half) take(place int, d dataItem, path []string, mine, others *structpb.Value) {
	e := Edit{Item: place, Path: path, Element: d.element}
	switch {
	case mine == nil && (d.part || d.element):
		return // what it is in comes whole
	case d.renamed != "":
		h.rename(e, d, path)
		return
	case others != nil:
		e.Value = astOf(others)
	}
	e.Others = mine == nil
	h.Edits = append(h.Edits, e)
}

// rename adds the edits by which a member has the name that it has on the other side.
func (h *Half) rename(e Edit, d dataItem, path []string) {
	names := [2]string{d.renamed, d.spot.candidate[len(d.spot.candidate)-1]}
	for _, name := range names {
		one := e
		one.Path = append(slices.Clone(path[:len(path)-1]), name)
		if name != path[len(path)-1] {
			one.Value = astOf(d.candidate)
		}
		h.Edits = append(h.Edits, one)
	}
}

func astOf(v *structpb.Value) ast.Value {
	value, err := ast.InterfaceToValue(compile.Plain(v))
	if err != nil {
		return ast.NullTerm().Value // no value of a message is none of JSON
	}
	return value
}

func refOf(path []string) ast.Ref {
	ref := ast.DefaultRootRef
	for _, name := range path {
		ref = ref.Append(ast.StringTerm(name))
	}
	return ref
}

// identity is equal for equal values.
func identity(v *structpb.Value) string {
	if v == nil {
		return ""
	}
	text, err := json.Marshal(compile.Plain(v))
	if err != nil {
		return ""
	}
	return string(text)
}

// texts are what both sides have there, for people.
func (d dataItem) texts() (live, candidate string) {
	if d.renamed != "" {
		return shownBoth(ast.String(d.renamed).String(), ast.String(d.spot.candidate[len(d.spot.candidate)-1]).String())
	}
	return shownBoth(identity(d.live), identity(d.candidate))
}

// differing returns the places below one that differ, in order.
func differing(at spot, live, candidate map[string]*structpb.Value) (out []dataItem) {
	names := slices.Concat(slices.Collect(maps.Keys(live)), slices.Collect(maps.Keys(candidate)))
	slices.Sort(names)
	var removed, added []string
	children := 0
	for _, name := range slices.Compact(names) {
		l, c := live[name], candidate[name]
		var found []dataItem
		switch {
		case c == nil:
			removed = append(removed, name)
			found = alone(dataItem{spot: at.member(name), live: l})
		case l == nil:
			added = append(added, name)
			found = alone(dataItem{spot: at.member(name), candidate: c})
		default:
			found = values(at.member(name), l, c)
		}
		if len(found) > 0 {
			children++
		}
		out = append(out, found...)
	}
	if len(removed) > 0 && len(added) > 0 {
		out = replacedMembers(out, at, removed, added)
	}
	return tabled(out, at, children)
}

// replacedMembers says of members that only one side has that some may have come in place of others: one that has
// another name and the same value did.
func replacedMembers(items []dataItem, at spot, removed, added []string) []dataItem {
	whole := func(name string) int { // comes before its parts
		return slices.IndexFunc(items, func(d dataItem) bool { return below(d, at, name) })
	}
	old, now := whole(removed[0]), whole(added[0])
	if len(removed) == 1 && len(added) == 1 && identity(items[old].live) == identity(items[now].candidate) {
		d := dataItem{
			spot: spot{at.member(removed[0]).live, at.member(added[0]).candidate, at.member(added[0]).ref}, name: at.ref, live: items[old].live, candidate: items[now].candidate, renamed: removed[0],
		}
		items = slices.DeleteFunc(items, func(d dataItem) bool { return below(d, at, removed[0]) || below(d, at, added[0]) })
		return append(items, d)
	}
	g := &group{}
	for i, d := range items {
		if slices.ContainsFunc(slices.Concat(removed, added), func(name string) bool { return below(d, at, name) }) {
			items[i].group = g
		}
	}
	return items
}

// below reports whether an item is at or below a member of a place.
func below(d dataItem, at spot, name string) bool {
	return len(d.spot.candidate) > len(at.candidate) && d.spot.candidate[len(at.candidate)] == name
}

// tabled notes that items are of a table, if the place has so many children that differ.
func tabled(items []dataItem, at spot, children int) []dataItem {
	if children >= tableFrom && len(at.ref) > 1 {
		for i := range items {
			items[i].table = at.ref
		}
	}
	return items
}

// alone returns what only one side has: the whole, and each of its parts, if there are several. That somebody has
// needed the whole does not say that of all that is in it.
func alone(d dataItem) []dataItem {
	if d.name == nil {
		d.name = d.ref
	}
	out := []dataItem{d}
	parts := partsOf(d.spot, valueOf(d), d.side())
	if len(parts) > 1 || len(parts) == 1 && d.side() == Both {
		out = append(out, parts...)
	}
	return out
}

// valueOf is what the side has that has something; of both, the candidate's.
func valueOf(d dataItem) *structpb.Value {
	if d.candidate != nil {
		return d.candidate
	}
	return d.live
}

// partsOf returns the parts of a value that have no parts themselves.
func partsOf(at spot, v *structpb.Value, side Side) (out []dataItem) {
	var walk func(at spot, name ast.Ref, v *structpb.Value, element bool)
	walk = func(at spot, name ast.Ref, v *structpb.Value, element bool) {
		switch fields, elements := v.GetStructValue().GetFields(), v.GetListValue().GetValues(); {
		case len(fields) > 0:
			for _, key := range slices.Sorted(maps.Keys(fields)) {
				walk(at.member(key), at.member(key).ref, fields[key], false)
			}
		case len(elements) > 0:
			for i, e := range elements {
				walk(at.element(i, i), at.ref, e, true)
			}
		default:
			d := dataItem{spot: at, name: name, element: element, part: true}
			if side == Live {
				d.live = v
			} else {
				d.candidate = v
			}
			out = append(out, d)
		}
	}
	walk(at, at.ref, v, false)
	return out
}

// values returns where two values differ.
func values(at spot, live, candidate *structpb.Value) []dataItem {
	l, object := live.GetKind().(*structpb.Value_StructValue)
	c, objectToo := candidate.GetKind().(*structpb.Value_StructValue)
	x, array := live.GetKind().(*structpb.Value_ListValue)
	y, arrayToo := candidate.GetKind().(*structpb.Value_ListValue)
	switch {
	case object && objectToo:
		return differing(at, l.StructValue.GetFields(), c.StructValue.GetFields())
	case array && arrayToo:
		return elements(at, x.ListValue.GetValues(), y.ListValue.GetValues())
	case identity(live) == identity(candidate):
		return nil
	}
	whole := dataItem{spot: at, name: at.ref, live: live, candidate: candidate}
	out := []dataItem{whole}
	if objectToo || arrayToo { // of another kind: who needs the whole does not need all of it
		out = append(out, partsOf(at, candidate, Candidate)...)
	}
	return out
}
