package admin

import "context"

// A project keeps cookbook artifacts beside its locks, for Chef's clients put those that a
// lock names before the lock itself (RFC-022). Nothing here runs them:
//
//	…/locations/global/artifacts/COOKBOOK/identifiers/IDENTIFIER
//	                                              the artifact exists; cheap to list
//	…/locations/global/artifacts/COOKBOOK/manifests/IDENTIFIER
//	                                              its manifest, byte for byte

// ArtifactID is a version of a cookbook: the name of the cookbook, and the identifier
// of its content.
type ArtifactID struct{ Cookbook, Identifier string }

func (l *Library) artifactKey(a ArtifactID) Key {
	return l.root.in("artifacts").key(a.Cookbook).in("identifiers").key(a.Identifier)
}

func (l *Library) manifestKey(a ArtifactID) Key {
	return l.root.in("artifacts").key(a.Cookbook).in("manifests").key(a.Identifier)
}

// Artifacts returns the artifacts of a cookbook, of all if it is empty, in order.
func (l *Library) Artifacts(ctx context.Context, cookbook string) ([]ArtifactID, error) {
	of := wildcard
	if cookbook != "" {
		of = cookbook
	}
	records, err := l.list(ctx, l.root.in("artifacts").key(of).in("identifiers"))
	if err != nil {
		return nil, err
	}
	out := make([]ArtifactID, len(records))
	for i, r := range records {
		out[i] = ArtifactID{r.Key.policy().id(), r.Key.id()} // a cookbook stands where a policy does
	}
	return out, nil
}

// AddArtifact stores the manifest of an artifact. The error is ALREADY_EXISTS if there
// is one: an artifact is named by its content, so it never changes.
func (l *Library) AddArtifact(ctx context.Context, a ArtifactID, manifest []byte) error {
	key := l.artifactKey(a)
	return l.commit(ctx, key, func(ctx context.Context) (Txn, error) {
		known, err := l.s.store.Get(ctx, key)
		if err != nil {
			return Txn{}, l.s.storeFailed(ctx, "reading "+string(key), err)
		}
		if known[0].Key != "" {
			return Txn{}, alreadyExists(key, reasonAlreadyExists, "An artifact cannot be changed.")
		}
		return Txn{
			Conditions: []Condition{Absent{key}},
			Writes:     []Write{present(key), Put{Key: l.manifestKey(a), Value: manifest}},
		}, nil
	})
}

// Artifact returns the manifest of an artifact. The error is NOT_FOUND if there is none.
func (l *Library) Artifact(ctx context.Context, a ArtifactID) ([]byte, error) {
	key := l.manifestKey(a)
	records, err := l.s.store.Get(ctx, key)
	if err != nil {
		return nil, l.s.storeFailed(ctx, "reading "+string(key), err)
	}
	if records[0].Key == "" {
		return nil, notFound(l.artifactKey(a))
	}
	return records[0].Value, nil
}

// RemoveArtifact removes an artifact and returns its manifest. Locks that name it stay
// as they are.
func (l *Library) RemoveArtifact(ctx context.Context, a ArtifactID) ([]byte, error) {
	var manifest []byte
	key := l.artifactKey(a)
	err := l.commit(ctx, key, func(ctx context.Context) (_ Txn, err error) {
		if manifest, err = l.Artifact(ctx, a); err != nil {
			return Txn{}, err
		}
		return Txn{Conditions: []Condition{Exists{Key: key}}, Writes: []Write{Delete{key}, Delete{l.manifestKey(a)}}}, nil
	})
	return manifest, err
}
