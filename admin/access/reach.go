package access

import "strings"

// reaches :: permission → the collection of the smallest resources on which a call asks for it;
// all others reach down to policies, and what is in them.
var reaches = map[Permission]string{
	PoliciesList: "locations", PoliciesCreate: "locations", DatasetsList: "locations", DatasetsCreate: "locations",
	OperationsList: "locations", OperationsDelete: "locations", OperationsCancel: "locations",
	NodesGet: "locations", NodesList: "locations", ConfigGet: "locations", ConfigUpdate: "locations",
	LocationsGetIAMPolicy: "locations", LocationsSetIAMPolicy: "locations",
	ProjectsGetIAMPolicy: "projects", ProjectsSetIAMPolicy: "projects",
}

// AppliesTo reports whether a permission on a resource lets anybody do anything: whether a call
// asks for it there, or on something that is in it.
func (p Permission) AppliesTo(resource string) bool {
	smallest, found := reaches[p]
	if !found {
		return true
	}
	segments := strings.Split(resource, "/")
	return len(segments) <= map[string]int{"projects": 2, "locations": 4}[smallest]
}
