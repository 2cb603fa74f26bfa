package access

import "testing"

// What is enforced changes by those alone who may commit, or edit policies.
func TestExperimentersNeverChangeWhatIsEnforced(t *testing.T) {
	for _, p := range []Permission{
		ExperimentsCommit, PoliciesCreate, PoliciesUpdate, PoliciesDelete, PoliciesUndelete, PoliciesRollback, PoliciesPromote,
		ConfigUpdate, RevisionsCreate, RevisionsDelete, PoliciesSetIAMPolicy,
		DatasetsCreate, DatasetsUpdate, DatasetsDelete, DatasetsUndelete, DatasetsRollback, DatasetsSetIAMPolicy,
	} {
		for role, want := range map[Role]bool{RoleViewer: false, RoleExperimenter: false, RoleOwner: true} {
			if got := role.Has(p); got != want {
				t.Errorf("%s has %s: got %v, want %v", role, p, got, want)
			}
		}
	}
	for _, p := range []Permission{ExperimentsCreate, ExperimentsUpdate, PoliciesUpdate, ProjectsSetIAMPolicy} {
		if RoleCommitter.Has(p) {
			t.Errorf("a committer has %s", p)
		}
	}
	for _, p := range RoleOwner.Permissions() {
		if RoleEditor.Has(p) != (p != OperationsDelete && p != PoliciesGetIAMPolicy && p != PoliciesSetIAMPolicy && p != LocationsGetIAMPolicy &&
			p != LocationsSetIAMPolicy && p != ProjectsGetIAMPolicy && p != ProjectsSetIAMPolicy && p != DatasetsGetIAMPolicy && p != DatasetsSetIAMPolicy) {
			t.Errorf("editor has %s: %v", p, RoleEditor.Has(p))
		}
	}
	if Role("roles/owner").Has(PoliciesGet) {
		t.Error("a role that does not exist has a permission")
	}
}

// An update of a policy may also create it, or undelete it.
func TestWhoMayUpdateAPolicyMayCreateAndUndeleteIt(t *testing.T) {
	for _, role := range Roles() {
		if may := role.Has(PoliciesUpdate); role.Has(PoliciesCreate) != may || role.Has(PoliciesUndelete) != may {
			t.Errorf("%s has only some of the permissions", role)
		}
	}
}
