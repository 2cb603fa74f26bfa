package library

import (
	"context"

	"understudy/admin"
	"understudy/admin/apierror"
)

// A project keeps cookbook artifacts, too, for Chef's clients put those that a
// lock names before the lock itself (RFC-022). Nothing here runs them:
//
//	…/locations/global/artifacts/COOKBOOK/identifiers/IDENTIFIER
//	                                              the artifact exists; cheap to list
//	…/locations/global/artifacts/COOKBOOK/manifests/IDENTIFIER
//	                                              its manifest, byte for byte

// ArtifactID is a version of a cookbook: the name of the cookbook, and the identifier
// of its content.
type ArtifactID struct{ Cookbook, Identifier string }

// artifactKey has no value, so that a list of artifacts does not read manifests.
func (l *Library) artifactKey(a ArtifactID) admin.Key {
	return l.root.In("artifacts").Key(a.Cookbook).In("identifiers").Key(a.Identifier)
}

// manifestKey is where the manifest is.
func (l *Library) manifestKey(a ArtifactID) admin.Key {
	return l.root.In("artifacts").Key(a.Cookbook).In("manifests").Key(a.Identifier)
}

// Artifacts returns the artifacts of a cookbook, of all if it is empty, in order.
func (l *Library) Artifacts(ctx context.Context, cookbook string) ([]ArtifactID, error) {
	of := admin.Wildcard
	if cookbook != "" {
		of = cookbook
	}
	records, err := l.list(ctx, l.root.In("artifacts").Key(of).In("identifiers"))
	if err != nil {
		return nil, err
	}
	out := make([]ArtifactID, len(records))
	for i, r := range records {
		out[i] = ArtifactID{r.Key.Policy().ID(), r.Key.ID()} // a cookbook stands where a policy does
	}
	return out, nil
}

// AddArtifact stores the manifest of an artifact. The error is ALREADY_EXISTS if there
// is one: an artifact is named by its content, so it never changes.
func (l *Library) AddArtifact(ctx context.Context, a ArtifactID, manifest []byte) error {
	key := l.artifactKey(a)
	return l.s.Commit(ctx, key, func(ctx context.Context) (admin.Txn, error) {
		known, err := l.s.Get(ctx, key)
		if err != nil {
			return admin.Txn{}, err
		}
		if known[0].Key != "" {
			return admin.Txn{}, apierror.AlreadyExists(key, apierror.ReasonAlreadyExists, "An artifact cannot be changed.")
		}
		return admin.Txn{
			Conditions: []admin.Condition{admin.Absent{Key: key}},
			Writes:     []admin.Write{present(key), admin.Put{Key: l.manifestKey(a), Value: manifest}},
		}, nil
	})
}

// Artifact returns the manifest of an artifact. The error is NOT_FOUND if there is none.
func (l *Library) Artifact(ctx context.Context, a ArtifactID) ([]byte, error) {
	key := l.manifestKey(a)
	records, err := l.s.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	if records[0].Key == "" {
		return nil, apierror.NotFound(l.artifactKey(a))
	}
	return records[0].Value, nil
}

// RemoveArtifact removes an artifact and returns its manifest. Locks that name it stay
// as they are.
func (l *Library) RemoveArtifact(ctx context.Context, a ArtifactID) ([]byte, error) {
	var manifest []byte
	key := l.artifactKey(a)
	err := l.s.Commit(ctx, key, func(ctx context.Context) (_ admin.Txn, err error) {
		if manifest, err = l.Artifact(ctx, a); err != nil {
			return admin.Txn{}, err
		}
		return admin.Txn{Conditions: []admin.Condition{admin.Exists{Key: key}}, Writes: []admin.Write{admin.Delete{Key: key}, admin.Delete{Key: l.manifestKey(a)}}}, nil
	})
	return manifest, err
}
