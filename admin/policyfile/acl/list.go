package acl

import (
	"slices"
	"strings"

	"understudy/admin/access"
)

// Permission is one of Chef's.
type Permission string

// The permissions.
const (
	Create Permission = "create"
	Read   Permission = "read"
	Update Permission = "update"
	Delete Permission = "delete"
	Grant  Permission = "grant"
)

// step is how much a member may; each one includes those before.
type step int

const (
	nothing step = iota
	reading
	changing
	granting
)

// steps :: permission → the step that has it.
var steps = map[Permission]step{Read: reading, Create: changing, Update: changing, Delete: changing, Grant: granting}

// Valid reports whether there is such a permission.
func (p Permission) Valid() bool { return steps[p] != nothing }

// Bindings :: member → its roles on a resource.
type Bindings map[string][]access.Role

// Entry is who has a permission.
type Entry struct {
	Actors []string `json:"actors"`
	Groups []string `json:"groups"`
}

// List :: permission → who has it.
type List map[Permission]Entry

// Of returns the list of a resource with these bindings. Names are sorted.
func Of(bindings Bindings) List {
	out := make(List)
	for permission, step := range steps {
		entry := Entry{Actors: []string{}, Groups: []string{}}
		for member, roles := range bindings {
			if stepOf(roles) < step {
				continue
			}
			if name, group := strings.CutPrefix(member, groupPrefix); group {
				entry.Groups = append(entry.Groups, name)
			} else {
				entry.Actors = append(entry.Actors, actor(member))
			}
		}
		slices.Sort(entry.Actors)
		slices.Sort(entry.Groups)
		out[permission] = entry
	}
	return out
}

// members are those of an entry.
func (e Entry) members() map[string]bool {
	out := make(map[string]bool)
	for _, a := range e.Actors {
		out[memberOf(a)] = true
	}
	for _, g := range e.Groups {
		out[groupPrefix+g] = true
	}
	return out
}

// stepOf is the highest step that roles reach. A role next to the ladder reads.
func stepOf(roles []access.Role) step {
	switch {
	case slices.Contains(roles, access.RoleOwner):
		return granting
	case slices.Contains(roles, access.RoleEditor):
		return changing
	case len(roles) > 0:
		return reading
	}
	return nothing
}
