package content

import (
	"crypto/sha256"
	"encoding/hex"

	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/authz/background"
)

// PolicyEtag returns the etag of a policy's content (AIP-154). It is weak, for the
// resource has fields that it does not cover, and has the uid in it, so that a
// policy that replaces a purged one of the same name never has its etag.
func PolicyEtag(p *adminpb.Policy) (string, error) { return weakEtag(p.GetUid(), OfPolicy(p)) }

// ExperimentEtag is PolicyEtag for an experiment.
func ExperimentEtag(e *adminpb.PolicyExperiment) (string, error) {
	return weakEtag(e.GetUid(), OfExperiment(e))
}

func weakEtag(uid string, content proto.Message) (string, error) {
	sum, err := contentHash(uid, content)
	if err != nil {
		return "", err
	}
	return `W/"` + sum[:32] + `"`, nil
}

// ConfigEtag is the etag of a location's configuration. One that was never set has
// an etag too.
func ConfigEtag(c *adminpb.Config) (string, error) {
	return weakEtag(c.GetName(), OfConfig(c))
}

// DatasetEtag is PolicyEtag for a dataset.
func DatasetEtag(d *adminpb.Dataset) (string, error) { return weakEtag(d.GetUid(), OfDataset(d)) }

// AcceptanceEtag is the etag of an acceptance.
func AcceptanceEtag(a *adminpb.Acceptance) (string, error) {
	return weakEtag(a.GetUid(), OfAcceptance(a))
}

// RulesEtag is the etag of what decides in a policy: of its content but its data and what is
// for people. It is computed again from what is stored, so that a later version may find that
// rules have changed which have not.
func RulesEtag(p *adminpb.Policy) (string, error) {
	rules := OfPolicy(p)
	rules.Data, rules.DisplayName, rules.Annotations = nil, "", nil
	return weakEtag(p.GetUid(), rules)
}

// RevisionID returns the ID of the revision with this content: the same in every
// location (RFC-042).
func RevisionID(p *adminpb.Policy) (string, error) { return contentHash("", OfPolicy(p)) }

// contentHash returns the SHA-256 of a salt and a message in hexadecimal. It is
// stored with what it describes and never computed again from what was stored: a
// later version of the library may serialise the message in another way.
func contentHash(salt string, content proto.Message) (sum string, err error) {
	background.Run(proto.Size(content), func() {
		var bytes []byte
		if bytes, err = (proto.MarshalOptions{Deterministic: true}).Marshal(content); err != nil {
			return
		}
		h := sha256.New()
		h.Write([]byte(salt + "\n"))
		h.Write(bytes)
		sum = hex.EncodeToString(h.Sum(nil))
	})
	return sum, err
}
