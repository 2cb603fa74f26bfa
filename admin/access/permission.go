package access

// Permission is what a method needs: understudy.COLLECTION.VERB.
type Permission string

// The permissions. Reading a list of X needs list on what X are in; every other method
// needs its own on the resource, or for what does not exist yet on its parent.
const (
	PoliciesGet          Permission = "understudy.policies.get"
	PoliciesList         Permission = "understudy.policies.list"
	PoliciesCreate       Permission = "understudy.policies.create"
	PoliciesUpdate       Permission = "understudy.policies.update"
	PoliciesDelete       Permission = "understudy.policies.delete"
	PoliciesUndelete     Permission = "understudy.policies.undelete"
	PoliciesRollback     Permission = "understudy.policies.rollback"
	PoliciesPromote      Permission = "understudy.policies.promote"
	PoliciesGetIAMPolicy Permission = "understudy.policies.getIamPolicy"
	PoliciesSetIAMPolicy Permission = "understudy.policies.setIamPolicy"

	ExperimentsGet    Permission = "understudy.experiments.get"
	ExperimentsList   Permission = "understudy.experiments.list"
	ExperimentsCreate Permission = "understudy.experiments.create"
	ExperimentsUpdate Permission = "understudy.experiments.update"
	ExperimentsDelete Permission = "understudy.experiments.delete"
	ExperimentsStart  Permission = "understudy.experiments.start"
	ExperimentsStop   Permission = "understudy.experiments.stop"
	ExperimentsCommit Permission = "understudy.experiments.commit"

	// Of datasets and their versions. To upload, to patch and to describe a dataset are an
	// update of it.
	DatasetsGet          Permission = "understudy.datasets.get"
	DatasetsList         Permission = "understudy.datasets.list"
	DatasetsCreate       Permission = "understudy.datasets.create"
	DatasetsUpdate       Permission = "understudy.datasets.update"
	DatasetsDelete       Permission = "understudy.datasets.delete"
	DatasetsUndelete     Permission = "understudy.datasets.undelete"
	DatasetsRollback     Permission = "understudy.datasets.rollback"
	DatasetsGetIAMPolicy Permission = "understudy.datasets.getIamPolicy"
	DatasetsSetIAMPolicy Permission = "understudy.datasets.setIamPolicy"

	ReportsGet Permission = "understudy.reports.get"

	RevisionsGet    Permission = "understudy.revisions.get"
	RevisionsList   Permission = "understudy.revisions.list"
	RevisionsCreate Permission = "understudy.revisions.create" // Policyfile API: a revision in the library
	RevisionsDelete Permission = "understudy.revisions.delete" // Policyfile API

	OperationsGet    Permission = "understudy.operations.get"
	OperationsList   Permission = "understudy.operations.list"
	OperationsDelete Permission = "understudy.operations.delete"
	OperationsCancel Permission = "understudy.operations.cancel"

	NodesGet  Permission = "understudy.nodes.get"
	NodesList Permission = "understudy.nodes.list"

	ConfigGet    Permission = "understudy.config.get"
	ConfigUpdate Permission = "understudy.config.update"

	// Of projects and locations.
	LocationsGetIAMPolicy Permission = "understudy.locations.getIamPolicy"
	LocationsSetIAMPolicy Permission = "understudy.locations.setIamPolicy"
	ProjectsGetIAMPolicy  Permission = "understudy.projects.getIamPolicy"
	ProjectsSetIAMPolicy  Permission = "understudy.projects.setIamPolicy"
)
