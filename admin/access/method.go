package access

import (
	"maps"
	"slices"
	"strings"
)

// Need is what a method of the API needs: a permission on the resource that a field of its
// request names.
type Need struct {
	// Permission is empty if the method needs none beyond authentication: it answers from
	// what the caller may do.
	Permission Permission
	// Field is the path of the field, in snake_case, such as policy.name.
	Field string
	// byCollection :: collection of the resource → permission, for the methods that are
	// there for several types of resources.
	byCollection map[string]Permission
}

// On returns the permission that is needed on a resource.
func (n Need) On(resource string) Permission {
	if n.byCollection == nil {
		return n.Permission
	}
	segments := strings.Split(resource, "/")
	if len(segments) >= 2 {
		if p, ok := n.byCollection[segments[len(segments)-2]]; ok {
			return p
		}
	}
	return n.byCollection["projects"] // a name of another type: the strictest
}

// needs :: method, as gRPC writes it → what it needs. It has every method of the services
// on the port; a method that is not here is never called.
var needs = map[string]Need{
	preview + "GetPolicy":                    {Permission: PoliciesGet, Field: "name"},
	preview + "ListPolicies":                 {Permission: PoliciesList, Field: "parent"},
	preview + "CreatePolicy":                 {Permission: PoliciesCreate, Field: "parent"},
	preview + "UpdatePolicy":                 {Permission: PoliciesUpdate, Field: "policy.name"}, // also with allow_missing (AIP-134)
	preview + "DeletePolicy":                 {Permission: PoliciesDelete, Field: "name"},
	preview + "UndeletePolicy":               {Permission: PoliciesUndelete, Field: "name"},
	preview + "RollbackPolicy":               {Permission: PoliciesRollback, Field: "name"},
	preview + "PromotePolicies":              {Permission: PoliciesPromote, Field: "parent"}, // and on destination, which admin asks for
	preview + "GetPolicyExperiment":          {Permission: ExperimentsGet, Field: "name"},
	preview + "ListPolicyExperiments":        {Permission: ExperimentsList, Field: "parent"},
	preview + "CreatePolicyExperiment":       {Permission: ExperimentsCreate, Field: "parent"},
	preview + "UpdatePolicyExperiment":       {Permission: ExperimentsUpdate, Field: "policy_experiment.name"},
	preview + "DeletePolicyExperiment":       {Permission: ExperimentsDelete, Field: "name"},
	preview + "StartPreviewPolicyExperiment": {Permission: ExperimentsStart, Field: "name"},
	preview + "StopPreviewPolicyExperiment":  {Permission: ExperimentsStop, Field: "name"},
	preview + "CommitPolicyExperiment":       {Permission: ExperimentsCommit, Field: "name"},
	preview + "GetReport":                    {Permission: ReportsGet, Field: "name"},
	preview + "GetAcceptance":                {Permission: ReportsGet, Field: "name"},
	preview + "ListAcceptances":              {Permission: ReportsGet, Field: "parent"},
	preview + "CreateAcceptance":             {Permission: ExperimentsCommit, Field: "parent"},
	preview + "DeleteAcceptance":             {Permission: ExperimentsCommit, Field: "name"},
	preview + "GetPolicyRevision":            {Permission: RevisionsGet, Field: "name"},
	preview + "ListPolicyRevisions":          {Permission: RevisionsList, Field: "parent"},
	preview + "GetConfig":                    {Permission: ConfigGet, Field: "name"},
	preview + "UpdateConfig":                 {Permission: ConfigUpdate, Field: "config.name"},
	preview + "GetNode":                      {Permission: NodesGet, Field: "name"},
	preview + "ListNodes":                    {Permission: NodesList, Field: "parent"},

	operations + "ListOperations":  {Permission: OperationsList, Field: "name"},
	operations + "GetOperation":    {Permission: OperationsGet, Field: "name"},
	operations + "WaitOperation":   {Permission: OperationsGet, Field: "name"},
	operations + "DeleteOperation": {Permission: OperationsDelete, Field: "name"},
	operations + "CancelOperation": {Permission: OperationsCancel, Field: "name"},

	iamPolicy + "GetIamPolicy": {Field: "resource", byCollection: map[string]Permission{
		"projects": ProjectsGetIAMPolicy, "locations": LocationsGetIAMPolicy, "policies": PoliciesGetIAMPolicy,
	}},
	iamPolicy + "SetIamPolicy": {Field: "resource", byCollection: map[string]Permission{
		"projects": ProjectsSetIAMPolicy, "locations": LocationsSetIAMPolicy, "policies": PoliciesSetIAMPolicy,
	}},
	iamPolicy + "TestIamPermissions": {Field: "resource"},
}

// The services, as the methods of gRPC begin.
const (
	preview    = "/understudy.admin.v1.PolicyPreview/"
	operations = "/google.longrunning.Operations/"
	iamPolicy  = "/google.iam.v1.IAMPolicy/"
)

// NeedOf returns what a method needs, named as gRPC does it, such as
// /understudy.admin.v1.PolicyPreview/GetPolicy. A method that is not known is not to be
// called.
func NeedOf(method string) (Need, bool) {
	n, ok := needs[method]
	return n, ok
}

// Methods returns all methods of which it is known what they need, sorted.
func Methods() []string { return slices.Sorted(maps.Keys(needs)) }
