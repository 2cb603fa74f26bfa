package cli

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	adminpb "understudy/admin/v1"
)

// changedParts names the parts in which two policies differ: modules by their names, data
// by their first keys, and rules.
func changedParts(before, after *adminpb.Policy) (parts []string) {
	parts = append(parts, changedKeys(before.GetModules(), after.GetModules(), "", func(a, b string) bool { return a == b })...)
	parts = append(parts, changedKeys(before.GetData().GetFields(), after.GetData().GetFields(), "data.",
		func(a, b *structpb.Value) bool { return proto.Equal(a, b) })...)
	if !slices.EqualFunc(before.GetRules(), after.GetRules(), func(a, b *adminpb.PolicyRule) bool { return proto.Equal(a, b) }) {
		parts = append(parts, "rules")
	}
	return parts
}

// changedKeys are the keys of two maps that are in one alone, or have other values.
func changedKeys[V any](before, after map[string]V, prefix string, same func(a, b V) bool) (keys []string) {
	all := maps.Clone(before)
	if all == nil {
		all = make(map[string]V)
	}
	maps.Copy(all, after)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		a, had := before[key]
		b, has := after[key]
		switch {
		case !had:
			keys = append(keys, prefix+key+" was added")
		case !has:
			keys = append(keys, prefix+key+" was removed")
		case !same(a, b):
			keys = append(keys, prefix+key)
		}
	}
	return keys
}
