package ui

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	"understudy/admin/policydiff"
	adminpb "understudy/admin/v1"
)

const (
	// differencesShown bounds what of the content next to modules is listed, and valueShown
	// the characters of a value.
	differencesShown = 50
	valueShown       = 200
)

// shownValues are the values that a page has room for, and how many more there are.
func shownValues(all []policydiff.Value) (shown []policydiff.Value, more int) {
	for _, v := range all[:min(len(all), differencesShown)] {
		shown = append(shown, policydiff.Value{Path: shortened(v.Path), Left: shortened(v.Left), Right: shortened(v.Right)})
	}
	return shown, len(all) - len(shown)
}

// ruleText is a rule as JSON has it.
func ruleText(r *adminpb.PolicyRule) string {
	text, err := protojson.MarshalOptions{}.Marshal(r)
	if err != nil {
		return "a rule"
	}
	return strings.Join(strings.Fields(string(text)), " ")
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
