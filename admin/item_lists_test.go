package admin_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"understudy/admin"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/rego/change"
	"understudy/rego/regotest"
)

// comparer is a compiler that counts what it compares, and fails that with an error if there is one.
type comparer struct {
	err      error
	compared int
}

func (*comparer) Compile(ctx context.Context, p *adminpb.Policy) error {
	_, err := authz.Compile(ctx, p)
	return err
}

func (*comparer) Test(ctx context.Context, p *adminpb.Policy, _ time.Duration, options regotest.Options) (regotest.Report, error) {
	return authz.RunTests(ctx, p, options)
}

func (c *comparer) Items(ctx context.Context, live, candidate *adminpb.Policy, _ bool) (*change.List, error) {
	c.compared++
	if c.err != nil {
		return nil, c.err
	}
	return authz.Items(ctx, live, candidate)
}

// countedReads is a store that counts reads of contents.
type countedReads struct {
	stores
	reads atomic.Int64
}

// Get implements admin.Store.
func (s *countedReads) Get(ctx context.Context, keys ...admin.Key) ([]admin.Record, error) {
	s.reads.Add(1)
	return s.stores.Get(ctx, keys...)
}

// reporting returns a server with a compiler on the store of a library, and how to ask it for a report.
func reporting(l *library, c *comparer) (*countedReads, *admin.Server, func(*adminpb.CommitRequirements) (*adminpb.Report, error)) {
	l.Helper()
	store := &countedReads{stores: l.store}
	server, err := admin.NewServer(admin.Config{Store: store, Compiler: c})
	l.check(err)
	return store, server, func(required *adminpb.CommitRequirements) (*adminpb.Report, error) {
		return server.GetReport(l.Context(), &adminpb.GetReportRequest{Name: l.policy + "/experiments/e1/report", Requirements: required})
	}
}

// allSeen requires that the whole change was seen.
func allSeen() *adminpb.CommitRequirements {
	return &adminpb.CommitRequirements{MaxUnjudgedCount: proto.Int64(0)}
}

// TestItemsAreKept: a report that is asked for again compares nothing and reads no contents, until
// one of both versions is another one.
func TestItemsAreKept(t *testing.T) {
	onEachStore(t, "items-kept", func(l *library) {
		compiler := &comparer{}
		store, server, report := reporting(l, compiler)
		for range 100 {
			if r, err := report(allSeen()); err != nil || r.ItemCount == 0 || r.RequirementsMet {
				t.Fatalf("got %v, %v", r, err)
			}
		}
		if n := store.reads.Load(); n != 1 || compiler.compared != 1 {
			t.Errorf("100 reports have read contents %d times, and compared them %d times", n, compiler.compared)
		}
		_, err := server.UpdatePolicy(t.Context(), &adminpb.UpdatePolicyRequest{Policy: &adminpb.Policy{Name: l.policy, DisplayName: "other"}})
		l.check(err)
		store.reads.Store(0)
		for range 2 {
			_, err := report(nil)
			l.check(err)
		}
		if n := store.reads.Load(); n != 1 || compiler.compared != 3 { // with the experiment, and with its base
			t.Errorf("of another live policy: contents were read %d times, and compared %d times", n, compiler.compared)
		}
	})
}

// TestItemsThatAreNotKnown: a report says that it is not known in what the policies differ, and a
// commit that requires something of that is refused. It is tried again if that may help.
func TestItemsThatAreNotKnown(t *testing.T) {
	onEachStore(t, "items-unknown", func(l *library) {
		compiler := &comparer{err: admin.ErrNoCompiler}
		_, _, report := reporting(l, compiler)
		if r, err := report(nil); err != nil || r.UnjudgedItemCount != nil {
			t.Errorf("without a compiler: got %v, %v", r, err)
		}
		if _, err := report(allSeen()); status.Code(err) != codes.Unavailable {
			t.Errorf("without a compiler, and something is required: got %v, want UNAVAILABLE", err)
		}
		compiler.err = nil
		if r, err := report(allSeen()); err != nil || r.UnjudgedItemCount == nil {
			t.Errorf("with a compiler again: got %v, %v", r, err)
		}

		broken := &comparer{err: errors.New("it takes too much memory")}
		_, server, report := reporting(l, broken)
		for range 3 {
			r, err := report(allSeen())
			if err != nil || r.UnjudgedItemCount != nil || r.RequirementsMet || !r.Requirements[0].Unreachable {
				t.Errorf("where it cannot be found out: got %v, %v", r, err)
			}
		}
		if broken.compared != 1 {
			t.Errorf("what cannot be found out was tried %d times", broken.compared)
		}
		experiment, err := server.GetPolicyExperiment(t.Context(), &adminpb.GetPolicyExperimentRequest{Name: l.policy + "/experiments/e1"})
		l.check(err)
		commit := &adminpb.CommitPolicyExperimentRequest{Name: experiment.Name, Etag: experiment.Etag, Requirements: allSeen()}
		if _, err := server.CommitPolicyExperiment(t.Context(), commit); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("a commit: got %v, want FAILED_PRECONDITION", err)
		}
		accept := &adminpb.CreateAcceptanceRequest{Parent: experiment.Name, Acceptance: &adminpb.Acceptance{
			Target: &adminpb.Acceptance_ItemId{ItemId: "00000000000000000000"}, Reason: "fine", ExperimentEtag: experiment.Etag,
		}}
		if _, err := server.CreateAcceptance(t.Context(), accept); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("an acceptance: got %v, want FAILED_PRECONDITION", err)
		}
		commit.Requirements = nil
		_, err = server.CommitPolicyExperiment(t.Context(), commit)
		l.check(err)
	})
}
