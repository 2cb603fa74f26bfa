package content

import (
	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
)

// OfPolicy returns a copy of the policy's user-settable fields, which are
// what an etag covers, a revision holds and an update may change.
func OfPolicy(p *adminpb.Policy) *adminpb.Policy {
	return &adminpb.Policy{
		DisplayName:      p.GetDisplayName(),
		Rules:            p.GetRules(),
		Modules:          p.GetModules(),
		Data:             p.GetData(),
		ExemptedProjects: p.GetExemptedProjects(),
		Annotations:      p.GetAnnotations(),
	}
}

// Copy gives a policy the user-settable fields of another. The messages are
// shared, not copied.
func Copy(to, from *adminpb.Policy) {
	to.DisplayName = from.DisplayName
	to.Rules = from.Rules
	to.Modules = from.Modules
	to.Data = from.Data
	to.ExemptedProjects = from.ExemptedProjects
	to.Annotations = from.Annotations
}

// OfConfig returns a copy of the user-settable fields of a location's configuration.
func OfConfig(c *adminpb.Config) *adminpb.Config {
	return &adminpb.Config{NextLocation: c.GetNextLocation(), CommitRequirements: c.GetCommitRequirements()}
}

// OfExperiment returns a copy of the experiment's user-settable fields. Its
// preview metadata is none of them, so that starting and stopping a preview leave
// the etag alone (AIP-236: the etag in a record identifies what was tested).
func OfExperiment(e *adminpb.PolicyExperiment) *adminpb.PolicyExperiment {
	policy := OfPolicy(e.GetPolicy())
	policy.Name = e.GetPolicy().GetName()
	return &adminpb.PolicyExperiment{
		Policy:      policy,
		Annotations: e.GetAnnotations(),
		DisplayName: e.GetDisplayName(),
		Expects:     e.GetExpects(),
	}
}

// OfDataset returns a copy of what the etag of a dataset covers: its user-settable fields, and
// which content it has.
func OfDataset(d *adminpb.Dataset) *adminpb.Dataset {
	return &adminpb.Dataset{
		DisplayName: d.GetDisplayName(), Annotations: d.GetAnnotations(), VersionUid: d.GetVersionUid(), Sha256: d.GetSha256(),
	}
}

// SameChange reports whether two experiments have the same `policy`, and expect the same of it.
func SameChange(a, b *adminpb.PolicyExperiment) bool {
	of := func(e *adminpb.PolicyExperiment) *adminpb.PolicyExperiment {
		return &adminpb.PolicyExperiment{Policy: OfPolicy(e.GetPolicy()), Expects: e.GetExpects()}
	}
	return proto.Equal(of(a), of(b))
}
