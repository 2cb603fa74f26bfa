package acl

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"understudy/admin/access"
)

// ladder :: step → its role.
var ladder = map[step]access.Role{reading: access.RoleViewer, changing: access.RoleEditor, granting: access.RoleOwner}

// Added returns the members that an entry would add to those who have a permission, sorted.
func (b Bindings) Added(permission Permission, wanted Entry) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(wanted.members())), func(member string) bool {
		return stepOf(b[member]) >= steps[permission]
	})
}

// With returns the bindings after an entry has replaced that of a permission; the given
// ones stay as they are. The error, for callers, says what cannot be expressed.
func (b Bindings) With(permission Permission, wanted Entry) (Bindings, error) {
	to, stay := steps[permission], wanted.members()
	out := maps.Clone(b)
	if out == nil {
		out = make(Bindings)
	}
	for _, member := range b.Added(permission, wanted) {
		out.move(member, to)
	}
	for _, member := range slices.Sorted(maps.Keys(b)) {
		if stepOf(b[member]) < to || stay[member] {
			continue
		}
		if err := removable(member, b[member], permission); err != nil {
			return nil, err
		}
		out.move(member, to-1)
	}
	return out, nil
}

// removable returns an error if a member cannot be taken out of an entry without being
// taken out of those of a higher step, or by a role that is next to the ladder.
func removable(member string, roles []access.Role, permission Permission) error {
	at, to := stepOf(roles), steps[permission]
	switch {
	case at > to && at == granting:
		return fmt.Errorf("%s has grant, which includes %s : take it out of grant first", shown(member), permission)
	case at > to:
		return fmt.Errorf("%s has create, update and delete, which are one permission here and include %s : take it out of these first", shown(member), permission)
	case to > reading:
		return nil
	}
	for _, role := range roles {
		if role != access.RoleViewer {
			return fmt.Errorf("%s reads by %s : take this role away with `understudy iam revoke`", shown(member), role)
		}
	}
	return nil
}

// shown is a member as an entry shows it.
func shown(member string) string {
	if name, group := strings.CutPrefix(member, groupPrefix); group {
		return "the group " + name
	}
	return actor(member)
}

// move puts a member on a step of the ladder. Roles next to it stay, and where one of them
// reads, the viewer's is not needed.
func (b Bindings) move(member string, to step) {
	roles := slices.DeleteFunc(slices.Clone(b[member]), func(role access.Role) bool {
		return role == access.RoleViewer || role == access.RoleEditor || role == access.RoleOwner
	})
	if to > reading || to == reading && len(roles) == 0 {
		roles = append(roles, ladder[to])
	}
	if len(roles) == 0 {
		delete(b, member)
		return
	}
	b[member] = roles
}
