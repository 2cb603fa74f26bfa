// Package policydiff finds what differs between two policies, as far as callers set it: modules
// line by line, and all else value by value, down to where objects of the data differ.
//
// Its texts are those of the policies: anyone who shows them escapes them for where they are shown.
package policydiff

import (
	"slices"

	"understudy/admin/policydiff/linediff"
	adminpb "understudy/admin/v1"
)

// Diff is what differs between two policies.
type Diff struct {
	// Modules are those that differ, and Alike the names of those that both have, in order.
	Modules []Module
	Alike   []string
	// Values are all else that differs, in the order of the fields of a policy.
	Values []Value
}

// Equal reports whether nothing differs.
func (d Diff) Equal() bool { return len(d.Modules)+len(d.Values) == 0 }

// Change is what becomes of a module.
type Change string

// What becomes of modules.
const (
	Changed Change = "changed"
	Added   Change = "added"
	Removed Change = "removed"
)

// Module is a module that differs.
type Module struct {
	Name   string
	Change Change
	// Left and Right are its texts, empty where a policy does not have it.
	Left, Right string
}

// Rows are the lines of both texts, side by side.
func (m Module) Rows() []linediff.Row {
	return linediff.Diff(linediff.Lines(m.Left), linediff.Lines(m.Right))
}

// Of compares two policies. Nil is one without content.
func Of(left, right *adminpb.Policy) Diff {
	d := Diff{Values: values(left, right)}
	for _, name := range keysOf(left.GetModules(), right.GetModules()) {
		l, inLeft := left.GetModules()[name]
		r, inRight := right.GetModules()[name]
		m := Module{Name: name, Change: Changed, Left: l, Right: r}
		switch {
		case !inLeft:
			m.Change = Added
		case !inRight:
			m.Change = Removed
		case l == r:
			d.Alike = append(d.Alike, name)
			continue
		}
		d.Modules = append(d.Modules, m)
	}
	return d
}

// keysOf are the keys of all maps, sorted.
func keysOf[V any](sides ...map[string]V) []string {
	var keys []string
	for _, side := range sides {
		for key := range side {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
