package sidecar

import (
	"context"
	"errors"
	"slices"
	"time"

	"understudy/authz"
)

// A policy ends when the feed says so: with a change, or as deleted in a Load. One that
// is enforced here and of which a Load knows nothing at all is missing: the store has
// lost it, as a Redis without persistence does in a restart, a FLUSHALL, or a failover to
// a replica that never had the last writes. Nobody decided that it should go, so it
// stays, and its live policy decides on, until it is stored again (`understudy restore`,
// or any apply), or deleted on purpose (`understudy restore --empty`). All other policies
// follow the store, unless it has an older version of them: see isNewer.

// proofTime bounds finding out whether a policy was deleted.
const proofTime = 5 * time.Second

// lastKnown returns what this sidecar decides by or, before it does, what it would decide by
// without the store: what the snapshot file has. What of that the store still has is not compiled
// again.
func (s *Sidecar) lastKnown(ctx context.Context) *snapshot {
	if snap := s.current.Load(); snap != nil {
		return snap
	}
	saved, _, _ := s.readSaved()
	return s.with(ctx, &snapshot{}, saved)
}

// missingFrom returns the policies of a snapshot that loaded, which holds everything that is
// followed, has lost. An error means that the store could not be asked.
func (s *Sidecar) missingFrom(ctx context.Context, known *snapshot, loaded authz.Update) (map[authz.PolicyName]bool, error) {
	missing := make(map[authz.PolicyName]bool)
	for name := range known.policies {
		if _, there := loaded.Policies[name]; !there {
			missing[name] = true
		}
	}
	if len(missing) == 0 || known.cursor == loaded.Cursor {
		return missing, nil
	}
	return missing, s.dropDeleted(ctx, known.cursor, missing)
}

// dropDeleted removes from missing what was deleted by a change. The store forgets a
// deleted policy after a while, but as long as it keeps all changes since the cursor,
// each of which names the one before it, they show it.
func (s *Sidecar) dropDeleted(ctx context.Context, since authz.Cursor, missing map[authz.PolicyName]bool) error {
	ctx, cancel := context.WithTimeout(ctx, proofTime)
	defer cancel()
	changes, err := s.config.Feed.Next(ctx, s.config.Scope, since)
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
const MissingHelp = "`understudy restore --missing` stores them again from the snapshot file; " +
	"`understudy restore --empty` accepts the loss, and the sidecars drop them"
