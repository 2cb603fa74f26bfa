package sidecar

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"understudy/authz"
	"understudy/authz/diagnostics"
)

const (
	// missingPolicyEvery is the least time between two warnings of the same policy ID.
	missingPolicyEvery = time.Minute
	// maxMissingPolicies bounds the IDs that are logged and kept in that time: who chooses
	// them may choose another one each time.
	maxMissingPolicies = 100
)

// missingPolicyLog rate-limits the warning about requests for policies that do not exist:
// every request may ask for one. It is safe for concurrent use.
type missingPolicyLog struct {
	mu sync.Mutex
	// since is when logged was last empty.
	since time.Time
	// logged holds the IDs that were logged since then, as they were logged.
	logged map[string]bool
}

func newMissingPolicyLog() *missingPolicyLog {
	return &missingPolicyLog{logged: make(map[string]bool)}
}

// noSuchPolicy is the reason of a decision about a request for a policy that is not there.
func noSuchPolicy(id authz.PolicyID) string {
	return fmt.Sprintf("There is no policy %q here, so this is the default decision. Create it, or name another one.", diagnostics.Bounded(string(id)))
}

// notFollowed is the reason of a denial of a request for a policy that this sidecar does not follow.
func notFollowed(id authz.PolicyID) string {
	return fmt.Sprintf("This sidecar does not follow the policy %q: it is none of --policies.", diagnostics.Bounded(string(id)))
}

// logMissingPolicy logs a request for a policy that is not there, unless its ID was logged
// in the last minute.
func (s *Sidecar) logMissingPolicy(id authz.PolicyID, d authz.Decision) {
	text := diagnostics.Bounded(string(id))
	first, last := s.missingPolicies.note(text, time.Now())
	switch {
	case first && d.Failure == authz.FailureNotFollowed:
		s.log.Warn("a request names a policy that this sidecar does not follow, and is denied; add it to --policies, or fix the route's "+
			"context extension", "policy", text)
	case first:
		s.log.Warn("no such policy: the request gets the default decision; create the policy, or fix the route's "+
			"context extension or the sidecar's own policy ID", "policy", text, "decision", d.Effect.String())
	case last:
		s.log.Warn("requests ask for many policies that do not exist; no more of them are logged for a while",
			"logged", maxMissingPolicies, "while", missingPolicyEvery)
	}
}

// note reports whether an ID is to be logged. It is the last one if there are too many, and
// then only that is to be logged.
func (l *missingPolicyLog) note(text string, now time.Time) (first, last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.since) >= missingPolicyEvery {
		clear(l.logged)
		l.since = now
	}
	if len(l.logged) > maxMissingPolicies || l.logged[text] {
		return false, false
	}
	// A clone, for text may be a part of a whole request.
	l.logged[strings.Clone(text)] = true
	return len(l.logged) <= maxMissingPolicies, len(l.logged) > maxMissingPolicies
}
