package admin

import (
	"crypto/sha256"
	"encoding/hex"

	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
)

// policyContent returns a copy of the policy's user-settable fields, which are
// what an etag covers, a revision holds and an update may change.
func policyContent(p *adminpb.Policy) *adminpb.Policy {
	return &adminpb.Policy{
		DisplayName:      p.GetDisplayName(),
		Rules:            p.GetRules(),
		Modules:          p.GetModules(),
		Data:             p.GetData(),
		ExemptedProjects: p.GetExemptedProjects(),
		Annotations:      p.GetAnnotations(),
	}
}

// copyContent gives a policy the user-settable fields of another. The messages are
// shared, not copied.
func copyContent(to, from *adminpb.Policy) {
	to.DisplayName = from.DisplayName
	to.Rules = from.Rules
	to.Modules = from.Modules
	to.Data = from.Data
	to.ExemptedProjects = from.ExemptedProjects
	to.Annotations = from.Annotations
}

// experimentContent returns a copy of the experiment's user-settable fields. Its
// preview metadata is none of them, so that starting and stopping a preview leave
// the etag alone (AIP-236: the etag in a record identifies what was tested).
func experimentContent(e *adminpb.PolicyExperiment) *adminpb.PolicyExperiment {
	policy := policyContent(e.GetPolicy())
	policy.Name = e.GetPolicy().GetName()
	return &adminpb.PolicyExperiment{
		Policy:      policy,
		Annotations: e.GetAnnotations(),
		DisplayName: e.GetDisplayName(),
	}
}

// policyEtag returns the etag of a policy's content (AIP-154). It is weak, for the
// resource has fields that it does not cover, and has the uid in it, so that a
// policy that replaces a purged one of the same name never has its etag.
func policyEtag(p *adminpb.Policy) (string, error) { return weakEtag(p.GetUid(), policyContent(p)) }

// experimentEtag is policyEtag for an experiment.
func experimentEtag(e *adminpb.PolicyExperiment) (string, error) {
	return weakEtag(e.GetUid(), experimentContent(e))
}

func weakEtag(uid string, content proto.Message) (string, error) {
	sum, err := contentHash(uid, content)
	if err != nil {
		return "", err
	}
	return `W/"` + sum[:32] + `"`, nil
}

// configEtag is the etag of a location's configuration. One that was never set has
// an etag too.
func configEtag(c *adminpb.Config) (string, error) {
	return weakEtag(c.GetName(), &adminpb.Config{NextLocation: c.GetNextLocation()})
}

// revisionID returns the ID of the revision with this content: the same in every
// location (RFC-042).
func revisionID(p *adminpb.Policy) (string, error) { return contentHash("", policyContent(p)) }

// contentHash returns the SHA-256 of a salt and a message in hexadecimal. It is
// stored with what it describes and never computed again from what was stored: a
// later version of the library may serialise the message in another way.
func contentHash(salt string, content proto.Message) (string, error) {
	bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(content)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	h.Write([]byte(salt + "\n"))
	h.Write(bytes)
	return hex.EncodeToString(h.Sum(nil)), nil
}
