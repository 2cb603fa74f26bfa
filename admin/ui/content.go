package ui

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	adminpb "understudy/admin/v1"
)

const (
	// differencesShown bounds what of the content beside modules is listed, and valueShown
	// the characters of a value.
	differencesShown = 50
	valueShown       = 200
)

// difference is something of the content beside modules in which two policies differ.
type difference struct {
	// Name is what it is, such as data.callers.stock. The values are empty where a side has
	// none.
	Name, Left, Right string
}

// contentDifferences are those of two policies: names, rules, data, exempted projects and
// annotations.
func contentDifferences(left, right *adminpb.Policy) []difference {
	var d differences
	d.add("display name", left.GetDisplayName(), right.GetDisplayName())
	d.rules(left.GetRules(), right.GetRules())
	d.value("data", structpb.NewStructValue(left.GetData()), structpb.NewStructValue(right.GetData()))
	d.add("exempted projects", strings.Join(left.GetExemptedProjects(), ", "), strings.Join(right.GetExemptedProjects(), ", "))
	for _, key := range keysOf(left.GetAnnotations(), right.GetAnnotations()) {
		d.add("annotation "+key, left.GetAnnotations()[key], right.GetAnnotations()[key])
	}
	return d
}

// differences are found one after the other.
type differences []difference

// add notes two texts, if they differ.
func (d *differences) add(name, left, right string) {
	if left != right && len(*d) < differencesShown {
		*d = append(*d, difference{shortened(name), shortened(left), shortened(right)})
	}
}

// rules compares the chains by their places: their order is what they mean.
func (d *differences) rules(left, right []*adminpb.PolicyRule) {
	at := func(rules []*adminpb.PolicyRule, i int) string {
		if i >= len(rules) {
			return ""
		}
		return ruleText(rules[i])
	}
	for i := range max(len(left), len(right)) {
		d.add("rule "+strconv.Itoa(i+1), at(left, i), at(right, i))
	}
}

// ruleText is a rule as JSON has it.
func ruleText(r *adminpb.PolicyRule) string {
	text, err := protojson.MarshalOptions{}.Marshal(r)
	if err != nil {
		return "a rule"
	}
	return strings.Join(strings.Fields(string(text)), " ")
}

// value compares two values of the data, and goes down to where they differ.
func (d *differences) value(path string, left, right *structpb.Value) {
	if len(*d) >= differencesShown || proto.Equal(left, right) {
		return
	}
	l, r := left.GetStructValue(), right.GetStructValue()
	if l == nil || r == nil {
		d.add(path, jsonOf(left), jsonOf(right))
		return
	}
	for _, key := range keysOf(l.Fields, r.Fields) {
		d.value(path+"."+key, l.Fields[key], r.Fields[key])
	}
}

// jsonOf is a value as JSON, empty if there is none.
func jsonOf(v *structpb.Value) string {
	if v == nil {
		return ""
	}
	text, err := protojson.Marshal(v)
	if err != nil {
		return "a value"
	}
	return string(text)
}

// keysOf are the keys of both maps, sorted.
func keysOf[K cmp.Ordered, V any](left, right map[K]V) []K {
	keys := slices.Collect(maps.Keys(left))
	for k := range right {
		if _, both := left[k]; !both {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// shortened cuts a long text.
func shortened(text string) string {
	if runes := []rune(text); len(runes) > valueShown {
		return string(runes[:valueShown]) + " …"
	}
	return text
}
