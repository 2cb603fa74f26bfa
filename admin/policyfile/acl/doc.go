// Package acl shows the bindings of a resource as Chef's access control list, and changes
// them as one is changed.
//
// A List has an Entry for each of Chef's five permissions. Of the roles that members have on
// a resource, three are a ladder: the viewer reads; the editor also creates, updates and
// deletes, which are one step here; the owner also grants. To put a member into an entry
// lifts it to the step that has the permission, and to take it out of one lowers it by that
// step. What would change another entry than those of the step is refused.
//
// A List shows the bindings of the resource itself, not what is inherited. The package is
// pure: it reads and stores nothing.
package acl
