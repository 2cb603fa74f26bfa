package change

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"google.golang.org/protobuf/types/known/structpb"
)

// constant is what differs in constants alone.
type constant struct {
	// item is what all its items have in common.
	item Item
	// live and candidate are the constants of both sides, in order: as many of each.
	live, candidate []*ast.Term
	// inLive and inCandidate put others in their place.
	inLive, inCandidate     func(func(*ast.Term) *ast.Term)
	liveText, candidateText string
	identity                []string
}

// constant adds items: one for a table in which members differ, each; else one for all.
func (b *builder) constant(of constant) {
	differ := func(i int) bool { return !of.live[i].Equal(of.candidate[i]) }
	places := slices.DeleteFunc(indexes(min(len(of.live), len(of.candidate))), func(i int) bool { return !differ(i) })
	if len(places) == 1 {
		// Values that differ may be equal as data has them, such as integers beyond 2^53. They are no table then.
		if parts, ok := tableOf(of.live[places[0]].Value, of.candidate[places[0]].Value); ok && !parts.none() {
			b.table(of, places[0], parts)
			return
		}
	}
	of.item.Live, of.item.Candidate = shownBoth(of.liveText, of.candidateText)
	place := b.add(of.item, of.identity...)
	if place < 0 {
		return
	}
	of.replace(b, differ, func(live, candidate []string, i int) {
		b.out.Live.Edits = append(b.out.Live.Edits, Edit{Item: place, Path: live, Value: of.candidate[i].Value})
		b.out.Candidate.Edits = append(b.out.Candidate.Edits, Edit{Item: place, Path: candidate, Value: of.live[i].Value})
	})
}

func indexes(n int) (out []int) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

// replace makes references to data of the constants of both sides that differ, and hands over where these are.
func (of constant) replace(b *builder, differ func(int) bool, done func(live, candidate []string, i int)) {
	side := func(h *Half, in func(func(*ast.Term) *ast.Term), values []*ast.Term) [][]string {
		paths, i := make([][]string, len(values)), -1
		in(func(t *ast.Term) *ast.Term {
			if i++; i >= len(values) || !differ(i) {
				return t
			}
			var ref *ast.Term
			ref, paths[i] = h.constant(values[i].Value)
			ref.Location = t.Location
			return ref
		})
		return paths
	}
	live, candidate := side(&b.out.Live, of.inLive, of.live), side(&b.out.Candidate, of.inCandidate, of.candidate)
	for i := range min(len(live), len(candidate)) {
		if live[i] != nil && candidate[i] != nil {
			done(live[i], candidate[i], i)
		}
	}
}

// tableItems are where two tables differ.
type tableItems struct {
	items []dataItem
	// removed and added are members of a set that only one side has.
	removed, added []ast.Value
}

func (t tableItems) none() bool { return len(t.items)+len(t.removed)+len(t.added) == 0 }

// tableOf returns where two tables differ. It reports false if they are none, or if nothing is left that is the same.
func tableOf(live, candidate ast.Value) (tableItems, bool) {
	l, set := live.(ast.Set)
	if c, too := candidate.(ast.Set); set && too {
		return tableItems{removed: members(l.Diff(c)), added: members(c.Diff(l))}, true
	}
	x, y := messageOf(live), messageOf(candidate)
	if x == nil || y == nil {
		return tableItems{}, false
	}
	found := values(spot{ref: ast.Ref{ast.DefaultRootDocument}}, x, y)
	whole := slices.ContainsFunc(found, func(d dataItem) bool { return len(d.spot.candidate) == 0 && !d.array })
	return tableItems{items: found}, !whole
}

func members(of ast.Set) (out []ast.Value) {
	of.Foreach(func(t *ast.Term) { out = append(out, t.Value) })
	return out
}

// messageOf returns an object or an array as data has it; nil if data cannot have it.
func messageOf(v ast.Value) *structpb.Value {
	switch v.(type) {
	case ast.Object, *ast.Array:
	default:
		return nil
	}
	plain := true
	ast.WalkTerms(v, func(t *ast.Term) bool {
		switch v := t.Value.(type) {
		case ast.Set:
			plain = false
		case ast.Object:
			v.Foreach(func(k, _ *ast.Term) {
				_, ok := k.Value.(ast.String)
				plain = plain && ok
			})
		}
		return !plain
	})
	if !plain {
		return nil
	}
	out := &structpb.Value{}
	if out.UnmarshalJSON([]byte(v.String())) != nil {
		return nil
	}
	return out
}

// table adds an item for each part of a table that differs.
func (b *builder) table(of constant, at int, parts tableItems) {
	of.replace(b, func(i int) bool { return i == at }, func(live, candidate []string, _ int) {
		b.dataItems(parts.items, func(d dataItem) (Item, []string) {
			item := of.item
			item.Live, item.Candidate = d.texts()
			if place := d.placeText(); place != "" {
				item.Live, item.Candidate = prefixed(place, item.Live), prefixed(place, item.Candidate)
			}
			return item, append(slices.Clone(of.identity), item.Live, item.Candidate)
		}, live, candidate)
		b.set(of, at, parts, spot{live: live, candidate: candidate})
	})
}

// placeText is the place of an item in its table, such as lead.GET; empty for what is of the table itself.
func (d dataItem) placeText() string {
	var names []string
	for _, t := range d.name[1:] {
		if s, ok := t.Value.(ast.String); ok {
			names = append(names, string(s))
		} else {
			names = append(names, t.Value.String())
		}
	}
	return strings.Join(names, ".")
}

func prefixed(place, text string) string {
	if text == "" {
		return ""
	}
	return shown(place + ": " + text)
}

// set adds an item for each member of a set that only one side has. A single one came in place of a single one.
func (b *builder) set(of constant, at int, parts tableItems, where spot) {
	if len(parts.removed) == 1 && len(parts.added) == 1 {
		b.member(of, where, parts.removed[0], parts.added[0])
		return
	}
	g := &group{}
	for _, v := range parts.removed {
		g.ids = append(g.ids, b.member(of, where, v, nil))
	}
	for _, v := range parts.added {
		g.ids = append(g.ids, b.member(of, where, nil, v))
	}
	if len(g.ids) == 0 {
		return
	}
	id := b.unlisted()
	b.out.Candidate.Edits = append(b.out.Candidate.Edits, Edit{Item: id, Path: where.candidate, Value: of.live[at].Value, Others: true})
	b.out.Live.Edits = append(b.out.Live.Edits, Edit{Item: id, Path: where.live, Value: of.candidate[at].Value, Others: true})
	if len(parts.removed) > 0 && len(parts.added) > 0 {
		g.ids = append(g.ids, id)
		b.out.Live.together(g)
		b.out.Candidate.together(g)
	}
}

// member adds an item for a member of a set, and returns its place. On the side that has it not it is nil, unless
// another one stands there for it.
func (b *builder) member(of constant, where spot, live, candidate ast.Value) int {
	item := of.item
	item.Side = Both
	var texts [2]string
	if live == nil {
		item.Side = Candidate
	} else {
		texts[0] = live.String()
	}
	if candidate == nil {
		item.Side = Live
	} else {
		texts[1] = candidate.String()
	}
	item.Live, item.Candidate = shownBoth(texts[0], texts[1])
	place := b.add(item, append(slices.Clone(of.identity), texts[0], texts[1])...)
	if place >= 0 && candidate != nil {
		b.out.Candidate.Edits = append(b.out.Candidate.Edits, Edit{Item: place, Path: where.candidate, Member: candidate, Value: live})
	}
	if place >= 0 && live != nil {
		b.out.Live.Edits = append(b.out.Live.Edits, Edit{Item: place, Path: where.live, Member: live, Value: candidate})
	}
	return place
}
