package servertest

import (
	"cmp"
	"context"
	"testing"
	"time"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/rehearsal/supervisor/supervisortest"
	"understudy/authz/sidecar"
)

// PolicySet is a Feed of policies that never change.
type PolicySet authz.Update

// Load is of authz.Feed.
func (f PolicySet) Load(context.Context, authz.Scope) (authz.Update, error) {
	return authz.Update(f), nil
}

// Next is of authz.Feed. There is no next change.
func (PolicySet) Next(ctx context.Context, _ authz.Scope, _ authz.Cursor) (authz.Update, error) {
	<-ctx.Done()
	return authz.Update{}, ctx.Err()
}

// Heartbeat is of authz.Feed.
func (f PolicySet) Heartbeat(context.Context, *adminpb.Node) (authz.Head, error) {
	return authz.Head{Cursor: f.Cursor}, nil
}

// Leave is of authz.Feed.
func (PolicySet) Leave(context.Context, string) error { return nil }

// Sidecar runs a sidecar that has loaded these policies.
func Sidecar(t testing.TB, policies map[authz.PolicyID]*adminpb.Policy) *sidecar.Sidecar {
	t.Helper()
	const location = authz.Location("projects/default/locations/test")
	set := PolicySet{Cursor: authz.Cursor{Sequence: 1, Nonce: "n"}, Policies: map[authz.PolicyName]authz.PolicyState{}}
	for id, p := range policies {
		set.Policies[location.Policy(id)] = authz.PolicyState{Policy: p}
	}
	return Run(t, sidecar.Config{Feed: set, Scope: authz.Scope{Location: location}, Node: "test"})
}

// Run starts a sidecar, waits until it is ready and stops it when the test ends. A test
// that ends while checks are under way fails by Run's error, not by a race with the
// next test.
func Run(t testing.TB, config sidecar.Config) *sidecar.Sidecar {
	t.Helper()
	if config.Rehearsal == nil {
		config.Rehearsal = supervisortest.New(t)
	}
	// However busy the machine is, only a test that sets a time limit reaches it.
	config.Preview.Timeout = cmp.Or(config.Preview.Timeout, time.Hour)
	config.DecisionLog.Timeout = cmp.Or(config.DecisionLog.Timeout, time.Hour)
	s, err := sidecar.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	<-s.Ready()
	return s
}

// Publish implements authz.Feed: there is nobody to read it.
func (PolicySet) Publish(context.Context, string, []authz.PublishedEvidence) (authz.Publication, error) {
	return authz.Publication{Nodes: 1}, nil
}

// Chunk implements authz.Contents: there are no datasets.
func (PolicySet) Chunk(context.Context, authz.Content, int) ([]byte, error) {
	return nil, authz.ErrNoChunk
}
