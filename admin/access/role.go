package access

import (
	"slices"
	"strings"
)

// Role is a name for a set of permissions, as a binding has it.
type Role string

// The roles, from the least to the most powerful; committer is not above experimenter,
// but next to it, and the editor of data is next to all but the last two.
const (
	// RoleViewer reads everything but who may do what, reports included.
	RoleViewer Role = "roles/understudy.viewer"
	// RoleExperimenter also creates, changes, starts, stops and deletes experiments. It
	// never changes what is enforced.
	RoleExperimenter Role = "roles/understudy.experimenter"
	// RoleCommitter is a viewer who also accepts differences, commits, rolls back and promotes.
	RoleCommitter Role = "roles/understudy.committer"
	// RoleEditor is experimenter and committer, and changes policies directly.
	RoleEditor Role = "roles/understudy.editor"
	// RoleDataEditor reads datasets, and changes what they contain. Bound to one, it is what a
	// team needs that owns its table and no policy.
	RoleDataEditor Role = "roles/understudy.dataEditor"
	// RoleOwner does everything, and says who may do what.
	RoleOwner Role = "roles/understudy.owner"
)

// rolePermissions :: role → its permissions, sorted.
var rolePermissions = makeRoles()

// makeRoles builds each role from what it adds to others.
func makeRoles() map[Role][]Permission {
	viewer := []Permission{
		PoliciesGet, PoliciesList, ExperimentsGet, ExperimentsList, ReportsGet, RevisionsGet, RevisionsList,
		OperationsGet, OperationsList, NodesGet, NodesList, ConfigGet, DatasetsGet, DatasetsList,
	}
	experimenter := with(viewer, ExperimentsCreate, ExperimentsUpdate, ExperimentsDelete, ExperimentsStart, ExperimentsStop)
	committer := with(viewer, ExperimentsCommit, PoliciesRollback, PoliciesPromote)
	editor := with(experimenter, ExperimentsCommit, PoliciesRollback, PoliciesPromote,
		PoliciesCreate, PoliciesUpdate, PoliciesDelete, PoliciesUndelete, RevisionsCreate, RevisionsDelete,
		ConfigUpdate, OperationsCancel, DatasetsCreate, DatasetsUpdate, DatasetsDelete, DatasetsUndelete, DatasetsRollback)
	dataEditor := with(nil, DatasetsGet, DatasetsList, DatasetsUpdate, DatasetsRollback, OperationsGet)
	// An operation says who has made a change, and keeps the report of a commit: anyone who makes
	// changes does not delete that.
	owner := with(editor, OperationsDelete, PoliciesGetIAMPolicy, PoliciesSetIAMPolicy, LocationsGetIAMPolicy, LocationsSetIAMPolicy,
		ProjectsGetIAMPolicy, ProjectsSetIAMPolicy, DatasetsGetIAMPolicy, DatasetsSetIAMPolicy)
	return map[Role][]Permission{
		RoleViewer: with(viewer), RoleExperimenter: experimenter, RoleCommitter: committer, RoleEditor: editor, RoleOwner: owner,
		RoleDataEditor: dataEditor,
	}
}

// with returns the sorted permissions of a role and further ones.
func with(role []Permission, more ...Permission) []Permission {
	out := slices.Concat(role, more)
	slices.Sort(out)
	return slices.Compact(out)
}

// Roles returns the names of all roles, sorted.
func Roles() []Role {
	out := make([]Role, 0, len(rolePermissions))
	for role := range rolePermissions {
		out = append(out, role)
	}
	slices.Sort(out)
	return out
}

// RolesByPower returns the names of all roles, the least powerful first.
func RolesByPower() []Role {
	return []Role{RoleDataEditor, RoleViewer, RoleExperimenter, RoleCommitter, RoleEditor, RoleOwner}
}

// RolesWith returns the roles that have a permission, the least powerful first.
func RolesWith(p Permission) (out []Role) {
	for _, role := range RolesByPower() {
		if role.Has(p) {
			out = append(out, role)
		}
	}
	return out
}

// Permissions returns what a role may, sorted; nil if there is no such role. The caller
// does not change it.
func (r Role) Permissions() []Permission { return rolePermissions[r] }

// Has reports whether a role has a permission.
func (r Role) Has(p Permission) bool {
	_, found := slices.BinarySearch(rolePermissions[r], p)
	return found
}

// Title is the role's last word, such as viewer, which is how a person names it.
func (r Role) Title() string { return string(r)[strings.LastIndexByte(string(r), '.')+1:] }
