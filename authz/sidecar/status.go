package sidecar

import (
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/authz"
)

// Status is what a Sidecar says of itself.
type Status struct {
	// Ready says that there is a snapshot to decide by.
	Ready bool
	// Sequence is that of the last change that the snapshot has.
	Sequence int64
	// Policies is the number of policies in the snapshot.
	Policies int
	// Contact is when the store last answered; if it never did, when the snapshot file
	// in use was written, which is never later; zero if there is neither.
	Contact time.Time
	// Lost is why the store does not answer; nil while it does.
	Lost error
	// NotApplied are the resources that could not be applied, those of the latest changes
	// first. A policy among them is decided by its last good version; without one it denies.
	NotApplied []string
	// Missing are the policies that decide here although the store has lost them, in
	// order.
	Missing []authz.PolicyName
	// Stale are the policies of which the store has an older version than decides here, in order.
	Stale []authz.PolicyName
	// WentBack says that the store has lost changes that this node, or another one of the location,
	// has seen.
	WentBack bool
	// Absent is the policy that decides where a request names none, if there is no such
	// policy: then these requests get the default decision. It is empty otherwise.
	Absent authz.PolicyID
}

// Status returns the present state.
func (s *Sidecar) Status() Status {
	out := s.store.status()
	if snap := s.current.Load(); snap != nil {
		out.Ready, out.Sequence, out.Policies = true, snap.cursor.Sequence, len(snap.policies)
		out.Missing, out.Stale = snap.missing(), snap.stale()
		if id := s.config.Policy; id != "" && snap.policies[s.config.Location.Policy(id)] == nil {
			out.Absent = id
		}
		for _, r := range snap.failures() {
			out.NotApplied = append(out.NotApplied, r.resource)
		}
	}
	return out
}

func (s *Sidecar) nodeName() string { return s.config.Location.Node(s.config.Node) }

// reached notes whether the store answered, and logs when that changes.
func (s *Sidecar) reached(err error) { s.logReached(s.store.reached(err), err) }

const answersAgain = "the store answers again"

// logReached logs a change.
func (s *Sidecar) logReached(before, err error) {
	switch {
	case err != nil && (before == nil || errors.Is(before, errNoAnswer) && !errors.Is(err, errNoAnswer)):
		s.log.Warn("the store does not answer"+s.meanwhile(), "error", err)
	case err == nil && before != nil:
		s.log.Info(answersAgain)
	}
}

// meanwhile says how requests are decided without the store.
func (s *Sidecar) meanwhile() string {
	if s.current.Load() == nil {
		return ", and there are no policies yet: every request is denied"
	}
	return "; deciding by the last policies"
}

// startTime is the create_time of the node.
func (s *Sidecar) startTime() *timestamppb.Timestamp { return timestamppb.New(s.started) }

// Age is how old the policies may be: the time since Contact while the store does not
// answer, 0 while it does or if there are none.
func (s Status) Age() time.Duration {
	if s.Lost == nil || s.Contact.IsZero() {
		return 0
	}
	return time.Since(s.Contact)
}
