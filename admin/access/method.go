package access

import (
	"maps"
	"slices"
	"strings"
)

// Need is what a method of the API needs: a permission on the resource that a field of its
// request names, and an event of the audit log if it changes something.
type Need struct {
	// Permission is empty if the method needs none beyond authentication: it answers from
	// what the caller may do.
	Permission Permission
	// Field is the path of the field, in snake_case, such as policy.name.
	Field string
	// Audited says that the method changes something: each call of it is an event of the audit
	// log, also one that is refused.
	Audited bool
	// Creates is the collection of what the method creates below the resource, and the field of
	// the request with its ID, such as policies/policy_id; empty if it creates nothing.
	Creates string
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
	preview + "CreatePolicy":                 {Permission: PoliciesCreate, Field: "parent", Audited: true, Creates: "policies/policy_id"},
	preview + "UpdatePolicy":                 {Permission: PoliciesUpdate, Field: "policy.name", Audited: true}, // also with allow_missing (AIP-134) and undelete: who may update may create and undelete
	preview + "DeletePolicy":                 {Permission: PoliciesDelete, Field: "name", Audited: true},
	preview + "UndeletePolicy":               {Permission: PoliciesUndelete, Field: "name", Audited: true},
	preview + "RollbackPolicy":               {Permission: PoliciesRollback, Field: "name", Audited: true},
	preview + "PromotePolicies":              {Permission: PoliciesPromote, Field: "parent", Audited: true}, // and on destination, which admin asks for
	preview + "GetPolicyExperiment":          {Permission: ExperimentsGet, Field: "name"},
	preview + "ListPolicyExperiments":        {Permission: ExperimentsList, Field: "parent"},
	preview + "CreatePolicyExperiment":       {Permission: ExperimentsCreate, Field: "parent", Audited: true, Creates: "experiments/policy_experiment_id"},
	preview + "UpdatePolicyExperiment":       {Permission: ExperimentsUpdate, Field: "policy_experiment.name", Audited: true},
	preview + "DeletePolicyExperiment":       {Permission: ExperimentsDelete, Field: "name", Audited: true},
	preview + "StartPreviewPolicyExperiment": {Permission: ExperimentsStart, Field: "name", Audited: true},
	preview + "StopPreviewPolicyExperiment":  {Permission: ExperimentsStop, Field: "name", Audited: true},
	preview + "CommitPolicyExperiment":       {Permission: ExperimentsCommit, Field: "name", Audited: true},
	preview + "GetReport":                    {Permission: ReportsGet, Field: "name"},
	preview + "GetAcceptance":                {Permission: ReportsGet, Field: "name"},
	preview + "ListAcceptances":              {Permission: ReportsGet, Field: "parent"},
	preview + "CreateAcceptance":             {Permission: ExperimentsCommit, Field: "parent", Audited: true, Creates: "acceptances/acceptance_id"},
	preview + "DeleteAcceptance":             {Permission: ExperimentsCommit, Field: "name", Audited: true},
	preview + "GetPolicyRevision":            {Permission: RevisionsGet, Field: "name"},
	preview + "ListPolicyRevisions":          {Permission: RevisionsList, Field: "parent"},
	preview + "GetConfig":                    {Permission: ConfigGet, Field: "name"},
	preview + "UpdateConfig":                 {Permission: ConfigUpdate, Field: "config.name", Audited: true},
	preview + "GetNode":                      {Permission: NodesGet, Field: "name"},
	preview + "ListNodes":                    {Permission: NodesList, Field: "parent"},

	datasets + "GetDataset":          {Permission: DatasetsGet, Field: "name"},
	datasets + "ListDatasets":        {Permission: DatasetsList, Field: "parent"},
	datasets + "CreateDataset":       {Permission: DatasetsCreate, Field: "parent", Audited: true, Creates: "datasets/dataset_id"},
	datasets + "UpdateDataset":       {Permission: DatasetsUpdate, Field: "dataset.name", Audited: true},
	datasets + "DeleteDataset":       {Permission: DatasetsDelete, Field: "name", Audited: true},
	datasets + "UndeleteDataset":     {Permission: DatasetsUndelete, Field: "name", Audited: true},
	datasets + "UploadDataset":       {Permission: DatasetsUpdate, Field: "name", Audited: true},
	datasets + "PatchDataset":        {Permission: DatasetsUpdate, Field: "name", Audited: true},
	datasets + "DownloadDataset":     {Permission: DatasetsGet, Field: "name"},
	datasets + "RollbackDataset":     {Permission: DatasetsRollback, Field: "name", Audited: true},
	datasets + "GetDatasetVersion":   {Permission: DatasetsGet, Field: "name"},
	datasets + "ListDatasetVersions": {Permission: DatasetsGet, Field: "parent"},

	operations + "ListOperations":  {Permission: OperationsList, Field: "name"},
	operations + "GetOperation":    {Permission: OperationsGet, Field: "name"},
	operations + "WaitOperation":   {Permission: OperationsGet, Field: "name"},
	operations + "DeleteOperation": {Permission: OperationsDelete, Field: "name", Audited: true},
	operations + "CancelOperation": {Permission: OperationsCancel, Field: "name", Audited: true},

	iamPolicy + "GetIamPolicy": {Field: "resource", byCollection: map[string]Permission{
		"projects": ProjectsGetIAMPolicy, "locations": LocationsGetIAMPolicy, "policies": PoliciesGetIAMPolicy, "datasets": DatasetsGetIAMPolicy,
	}},
	iamPolicy + "SetIamPolicy": {Field: "resource", Audited: true, byCollection: map[string]Permission{
		"projects": ProjectsSetIAMPolicy, "locations": LocationsSetIAMPolicy, "policies": PoliciesSetIAMPolicy, "datasets": DatasetsSetIAMPolicy,
	}},
	iamPolicy + "TestIamPermissions": {Field: "resource"},
}

// The services, as the methods of gRPC begin.
const (
	preview    = "/understudy.admin.v1.PolicyPreview/"
	datasets   = "/understudy.admin.v1.Datasets/"
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
