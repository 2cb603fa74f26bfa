package iam

import (
	"slices"

	"cloud.google.com/go/iam/apiv1/iampb"

	"understudy/admin/audit"
)

// deltas are the roles that members have by the bindings after, and not by those before, or the
// other way round. Both are in canonical form; of bindings that cannot be read it is not known
// what they gave, so before is nil.
func deltas(before, after *iampb.Policy) []audit.BindingDelta {
	// What was taken away comes first, as in a diff.
	return append(added(audit.Remove, after, before), added(audit.Add, before, after)...)
}

// added are the members of bindings whom others do not have.
func added(action audit.DeltaAction, without, with *iampb.Policy) (out []audit.BindingDelta) {
	had := make(map[string][]string) // :: role → members, sorted
	for _, b := range without.GetBindings() {
		had[b.GetRole()] = b.GetMembers()
	}
	for _, b := range with.GetBindings() {
		for _, member := range b.GetMembers() {
			if _, found := slices.BinarySearch(had[b.GetRole()], member); !found {
				out = append(out, audit.BindingDelta{Action: action, Role: b.GetRole(), Member: member})
			}
		}
	}
	return out
}
