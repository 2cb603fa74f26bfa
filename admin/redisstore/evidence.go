package redisstore

import (
	"context"

	"understudy/admin"
	"understudy/authz"
)

// Publish implements authz.Feed.
func (s *Store) Publish(context.Context, string, []authz.PublishedEvidence) (authz.Publication, error) {
	return authz.Publication{}, admin.ErrUnavailable
}

// Evidence implements admin.Store.
func (s *Store) Evidence(context.Context, admin.Key, string) (admin.Evidence, error) {
	return admin.Evidence{}, nil
}

// Settle implements admin.Store.
func (s *Store) Settle(context.Context, admin.Settlement) error { return admin.ErrUnavailable }

// EvidenceNames implements admin.Store.
func (s *Store) EvidenceNames(context.Context, string) ([]admin.EvidenceName, error) { return nil, nil }

// DropEvidence implements admin.Store.
func (s *Store) DropEvidence(context.Context, admin.EvidenceName) error { return admin.ErrUnavailable }
