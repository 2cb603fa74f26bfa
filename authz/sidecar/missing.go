package sidecar

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"understudy/authz"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	adminpb "understudy/admin/v1"
)

// A policy ends when the feed says so: with a change, or as deleted in a Load. One that
// is enforced here and of which a Load knows nothing at all is missing: the store has
// lost it, as a Redis without persistence does in a restart, a FLUSHALL, or a failover to
// a replica that never had the last writes. Nobody decided that it should go, so it
// stays, and its live policy decides on, until it is stored again (`understudy restore`,
// or any apply), or deleted on purpose (`understudy restore --empty`). All other policies
// follow the store.

// proofTime bounds finding out whether a policy was deleted.
const proofTime = 5 * time.Second

// lastKnown returns the names of what this sidecar decides by or, before it does, what the
// snapshot file holds.
func (s *Sidecar) lastKnown() authz.Update {
	if snap := s.current.Load(); snap != nil {
		return snap.names()
	}
	saved, _, ok := s.readSaved()
	if !ok {
		return authz.Update{}
	}
	return saved
}

// missingFrom returns the policies of known that loaded, which holds everything, has
// lost. An error means that the store could not be asked.
func (s *Sidecar) missingFrom(ctx context.Context, known, loaded authz.Update) (map[authz.PolicyName]authz.PolicyState, error) {
	missing := make(map[authz.PolicyName]authz.PolicyState)
	for name, state := range known.Policies {
		if _, there := loaded.Policies[name]; !there {
			missing[name] = state
		}
	}
	if len(missing) == 0 || known.Cursor == loaded.Cursor {
		return missing, nil
	}
	return missing, s.dropDeleted(ctx, known.Cursor, missing)
}

// dropDeleted removes from missing what was deleted by a change. The store forgets a
// deleted policy after a while, but as long as it keeps all changes since the cursor,
// each of which names the one before it, they show it.
func (s *Sidecar) dropDeleted(ctx context.Context, since authz.Cursor, missing map[authz.PolicyName]authz.PolicyState) error {
	ctx, cancel := context.WithTimeout(ctx, proofTime)
	defer cancel()
	changes, err := s.config.Feed.Next(ctx, s.config.Location, since)
	if errors.Is(err, authz.ErrTrimmed) {
		return nil
	}
	if err != nil {
		return err
	}
	for name, state := range changes.Policies {
		if state.Gone() {
			delete(missing, name)
		}
	}
	return nil
}

// keepMissing puts the entries of missing policies into a snapshot.
func (s *Sidecar) keepMissing(ctx context.Context, on *snapshot, missing map[authz.PolicyName]authz.PolicyState) {
	snap := s.current.Load()
	if snap == nil {
		// They come from the snapshot file.
		snap = s.with(ctx, &snapshot{}, authz.Update{Policies: missing})
		s.logFailures(snap, authz.Update{Policies: missing})
	}
	for name := range missing {
		kept := *snap.policies[name]
		kept.missing = true
		on.policies[name] = &kept
	}
}

// missing returns the policies that the store has lost, in order.
func (s *snapshot) missing() []authz.PolicyName {
	var names []authz.PolicyName
	for name, e := range s.policies {
		if e.missing {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// MissingHelp says what to do about policies that the store has lost.
const MissingHelp = "`understudy restore` stores them again from the snapshot file; " +
	"`understudy restore --empty` accepts the loss, and the sidecars drop them"

// logMissing logs when policies get lost, and when none is any more.
func (s *Sidecar) logMissing(before, now *snapshot) {
	missing := now.missing()
	var had []authz.PolicyName
	if before != nil {
		had = before.missing()
	}
	switch {
	case len(missing) == 0 && len(had) > 0:
		s.log.Info("the store has all policies again, or their loss was accepted")
	case !slices.Equal(missing, had) && len(missing) > 0:
		s.log.Error("the store has lost policies; the last ones decide on. "+MissingHelp,
			"count", len(missing), "policies", joinIDs(missing), "location", string(s.config.Location))
	}
}

// withMissing adds to the error of a node, which may be nil, the policies that the store
// has lost, at most maxNodeErrors of them.
func (s *snapshot) withMissing(failure *statuspb.Status) *statuspb.Status {
	missing := s.missing()
	if len(missing) == 0 {
		return failure
	}
	st := status.FromProto(failure)
	if failure == nil {
		st = status.Newf(codes.DataLoss, "the store has lost %d policies that this node enforces: %s",
			len(missing), joinIDs(missing))
	}
	for _, name := range missing[:min(len(missing), maxNodeErrors)] {
		detailed, err := st.WithDetails(&errdetails.ErrorInfo{
			Reason: authz.ReasonMissing, Domain: adminpb.ErrorDomain, Metadata: map[string]string{"resource": string(name)},
		})
		if err == nil {
			st = detailed
		}
	}
	return st.Proto()
}

// joinIDs returns the IDs of at most maxNodeErrors policies.
func joinIDs(names []authz.PolicyName) string {
	var ids []string
	for _, name := range names[:min(len(names), maxNodeErrors)] {
		ids = append(ids, string(name.ID()))
	}
	if len(names) > maxNodeErrors {
		ids = append(ids, "…")
	}
	return strings.Join(ids, ", ")
}
