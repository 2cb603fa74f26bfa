package policydiff

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"understudy/admin/policydiff/linediff"
	adminpb "understudy/admin/v1"
)

// Conflict is a place that two versions of a policy have both changed since the one that they were made from, and
// not in the same way.
type Conflict struct {
	// Path is where it is, such as modules["shop.rego"], rules or data.roles.auditor.
	Path string
	// Base, Live and Own are what the three versions have there: JSON, or lines of a module. They are empty where a
	// version does not have it.
	Base, Live, Own string
}

// Merge returns a policy with all that the live one and an own version have changed since the base, and where they
// conflict. There it has what the own version has; lines of modules stand between the marks of a merge by git. Modules are
// merged line by line, lists by their elements, and data value by value. A nil policy is one without content.
//
// The result is a new policy with the name of the own version and nothing that a server sets.
func Merge(base, live, own *adminpb.Policy) (*adminpb.Policy, []Conflict) {
	m := &merge{}
	out := &adminpb.Policy{Name: own.GetName()}
	out.DisplayName, _ = three(m, "displayName", quoted, versions[string]{base.GetDisplayName(), live.GetDisplayName(), own.GetDisplayName()})
	out.Rules = m.rules(base.GetRules(), live.GetRules(), own.GetRules())
	out.Modules = m.modules(base.GetModules(), live.GetModules(), own.GetModules())
	if data := m.object("data", base.GetData(), live.GetData(), own.GetData()); len(data.Fields) > 0 {
		out.Data = data
	}
	out.ExemptedProjects = m.projects(base.GetExemptedProjects(), live.GetExemptedProjects(), own.GetExemptedProjects())
	out.Annotations = m.annotations(base.GetAnnotations(), live.GetAnnotations(), own.GetAnnotations())
	return out, m.conflicts
}

// merge collects what conflicts.
type merge struct{ conflicts []Conflict }

// versions are what the three versions have at a place.
type versions[T any] struct{ base, live, own T }

// three merges what is at a place as a whole, and reports whether it does not conflict. text writes what a version has,
// by which versions are compared; it is empty if a version has nothing there.
func three[T any](m *merge, path string, text func(T) string, v versions[T]) (T, bool) {
	merged, ok := pick(text, v)
	if !ok {
		m.conflicts = append(m.conflicts, Conflict{path, text(v.base), text(v.live), text(v.own)})
	}
	return merged, ok
}

// pick returns what one of two versions has changed, and reports false, with what the own version has, if both have.
func pick[T any](text func(T) string, v versions[T]) (T, bool) {
	base, live, own := text(v.base), text(v.live), text(v.own)
	if own == base {
		return v.live, true
	}
	return v.own, live == base || live == own
}

// modules merges files.
func (m *merge) modules(base, live, own map[string]string) map[string]string {
	out := make(map[string]string)
	for _, name := range keysOf(live, own) {
		b, l, o := entryOf(base, name), entryOf(live, name), entryOf(own, name)
		switch {
		case l != nil && o != nil:
			out[name] = m.module(member("modules", name), entryText(b), *l, *o)
		default: // one of them has removed it, or added it
			kept, ok := three(m, member("modules", name), entryJSON, versions[*string]{b, l, o})
			if !ok && kept == nil {
				kept = l // changed by the live policy, and removed
			}
			if kept != nil {
				out[name] = *kept
			}
		}
	}
	return out
}

// entryOf is a text of a map; nil if it is not there.
func entryOf(of map[string]string, key string) *string {
	if text, there := of[key]; there {
		return &text
	}
	return nil
}

// entryText is a text; empty if it is not there.
func entryText(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// entryJSON is a text as JSON; empty if it is not there.
func entryJSON(text *string) string {
	if text == nil {
		return ""
	}
	return encoded(*text, false)
}

// module merges the lines of a module.
func (m *merge) module(path, base, live, own string) string {
	var lines []string
	for _, c := range linediff.Merge(linediff.Lines(base), linediff.Lines(live), linediff.Lines(own)) {
		if !c.Conflict {
			lines = append(lines, c.Lines...)
			continue
		}
		m.conflicts = append(m.conflicts, Conflict{path, joined(c.Base), joined(c.Left), joined(c.Right)})
		lines = slices.Concat(lines, []string{"<<<<<<< experiment"}, c.Right, []string{"||||||| base"}, c.Base, []string{"======="}, c.Left, []string{">>>>>>> live policy"})
	}
	merged := joined(lines)
	if ends, _ := pick(endOf, versions[string]{base, live, own}); !strings.HasSuffix(ends, "\n") {
		merged = strings.TrimSuffix(merged, "\n")
	}
	return merged
}

// endOf is the last byte of a text, which may be a line break.
func endOf(text string) string { return text[max(0, len(text)-1):] }

// joined is a text of lines.
func joined(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// rules merges chains of filters.
func (m *merge) rules(base, live, own []*adminpb.PolicyRule) (out []*adminpb.PolicyRule) {
	for _, line := range m.lines("rules", jsonsOf(base), jsonsOf(live), jsonsOf(own)) {
		rule := &adminpb.PolicyRule{}
		decode(line, rule)
		out = append(out, rule)
	}
	return out
}

func jsonsOf(rules []*adminpb.PolicyRule) (out []string) {
	for _, rule := range rules {
		out = append(out, jsonOf(rule))
	}
	return out
}

// lines merges lists of texts in which the order matters.
func (m *merge) lines(path string, base, live, own []string) (out []string) {
	for _, c := range linediff.Merge(base, live, own) {
		if c.Conflict {
			m.conflicts = append(m.conflicts, Conflict{path, listOf(c.Base), listOf(c.Left), listOf(c.Right)})
			c.Lines = c.Right
		}
		out = append(out, c.Lines...)
	}
	return out
}

// projects merges lists of which the order does not matter.
func (m *merge) projects(base, live, own []string) []string {
	if merged, ok := set(base, live, own); ok {
		return merged
	}
	return m.lines("exemptedProjects", base, live, own)
}

// listOf is a part of a list, an element on each line.
func listOf(elements []string) string { return strings.Join(elements, "\n") }

// annotations merges what clients keep.
func (m *merge) annotations(base, live, own map[string]string) map[string]string {
	out := make(map[string]string)
	for _, key := range keysOf(live, own) {
		if kept, _ := three(m, member("annotations", key), entryJSON, versions[*string]{entryOf(base, key), entryOf(live, key), entryOf(own, key)}); kept != nil {
			out[key] = *kept
		}
	}
	return out
}

// object merges objects of the data, of which a key that one has removed is gone.
func (m *merge) object(path string, base, live, own *structpb.Struct) *structpb.Struct {
	out := &structpb.Struct{Fields: make(map[string]*structpb.Value)}
	for _, key := range keysOf(base.GetFields(), live.GetFields(), own.GetFields()) {
		if kept := m.value(member(path, key), base.GetFields()[key], live.GetFields()[key], own.GetFields()[key]); kept != nil {
			out.Fields[key] = kept
		}
	}
	return out
}

// value merges values of the data; nil is none.
func (m *merge) value(path string, base, live, own *structpb.Value) *structpb.Value {
	b, l, o := base.GetStructValue(), live.GetStructValue(), own.GetStructValue()
	if l != nil && o != nil && (b != nil || base == nil) {
		return structpb.NewStructValue(m.object(path, b, l, o))
	}
	if merged, ok := list(base.GetListValue(), live.GetListValue(), own.GetListValue()); ok {
		return merged
	}
	kept, _ := three(m, path, func(v *structpb.Value) string { return jsonOf(v) }, versions[*structpb.Value]{base, live, own})
	return kept
}

// list merges lists of distinct texts, numbers and truth values, which stand for sets. It reports false if they are not
// such lists.
func list(base, live, own *structpb.ListValue) (*structpb.Value, bool) {
	b, isSet := scalars(base)
	l, liveIsSet := scalars(live)
	o, ownIsSet := scalars(own)
	if !isSet || !liveIsSet || !ownIsSet {
		return nil, false
	}
	merged, ok := set(b, l, o)
	out := &structpb.ListValue{Values: make([]*structpb.Value, len(merged))}
	for i, text := range merged {
		out.Values[i] = &structpb.Value{}
		decode(text, out.Values[i])
	}
	return structpb.NewListValue(out), ok
}

// scalars returns the elements of a list as JSON. It reports false if it is none, or if some are lists or objects.
func scalars(list *structpb.ListValue) (out []string, ok bool) {
	for _, v := range list.GetValues() {
		if v.GetStructValue() != nil || v.GetListValue() != nil {
			return nil, false
		}
		out = append(out, jsonOf(v))
	}
	return out, list != nil
}

// set merges lists of distinct elements: what the own version has, less what the live policy has removed, and then what
// that has added. It reports false if an element is there twice, or if one of the two has changed the order of what it
// has kept.
func set(base, live, own []string) (out []string, ok bool) {
	b, l, o := places(base), places(live), places(own)
	if len(b) < len(base) || len(l) < len(live) || len(o) < len(own) || !sameOrder(base, l) || !sameOrder(base, o) {
		return nil, false
	}
	for _, e := range own {
		if isIn(l, e) || !isIn(b, e) {
			out = append(out, e)
		}
	}
	for _, e := range live {
		if !isIn(b, e) && !isIn(o, e) {
			out = append(out, e)
		}
	}
	return out, true
}

// places :: element → its place in a list.
func places(of []string) map[string]int {
	at := make(map[string]int, len(of))
	for i, e := range of {
		at[e] = i
	}
	return at
}

func isIn(at map[string]int, e string) bool {
	_, there := at[e]
	return there
}

// sameOrder reports whether the elements of a list that are at places are there in the order of the list.
func sameOrder(of []string, at map[string]int) bool {
	last := -1
	for _, e := range of {
		if place, there := at[e]; there {
			if place < last {
				return false
			}
			last = place
		}
	}
	return true
}

// decode reads what jsonOf has written.
func decode(text string, m proto.Message) {
	if err := protojson.Unmarshal([]byte(text), m); err != nil {
		panic("policydiff: " + err.Error())
	}
}
