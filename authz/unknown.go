package authz

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"understudy/authz/diagnostics"
)

const (
	// unknownEvery is the least time between two warnings of the same policy ID.
	unknownEvery = time.Minute
	// maxUnknown bounds the IDs that are warned of and remembered in that time: who
	// chooses them may choose another one each time.
	maxUnknown = 100
)

// unknown remembers of which policies that are not there it was told lately: they
// may be asked for by every request. It is safe for concurrent use.
type unknown struct {
	mu sync.Mutex
	// since is when told was last empty.
	since time.Time
	// told holds the IDs that were told of since then, as they were logged.
	told map[string]bool
}

func newUnknown() *unknown { return &unknown{told: make(map[string]bool)} }

// noSuchPolicy is the reason of a decision about a request for a policy that is not there.
func noSuchPolicy(id PolicyID) string {
	return fmt.Sprintf("There is no policy %q here, so this is the default decision. Create it, or name another one.", diagnostics.Bounded(string(id)))
}

// tellUnknown logs a request for a policy that is not there, unless its ID was told
// of lately. The verdict is that of the default decision.
func (s *Sidecar) tellUnknown(id PolicyID, verdict Verdict) {
	text := diagnostics.Bounded(string(id))
	first, last := s.unknown.note(text, time.Now())
	switch {
	case first:
		s.log.Warn("no such policy: the request gets the default decision; create the policy, or mend the route's "+
			"context extension or the sidecar's own policy ID", "policy", text, "decision", verdict.String())
	case last:
		s.log.Warn("requests ask for many policies that do not exist; no more of them are told of for a while",
			"told", maxUnknown, "while", unknownEvery)
	}
}

// note reports whether an ID is to be told of. It is the last one if there are too
// many, and then only that is to be told.
func (u *unknown) note(text string, now time.Time) (first, last bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now.Sub(u.since) >= unknownEvery {
		clear(u.told)
		u.since = now
	}
	if len(u.told) > maxUnknown || u.told[text] {
		return false, false
	}
	// A clone, for text may be a part of a whole request.
	u.told[strings.Clone(text)] = true
	return len(u.told) <= maxUnknown, len(u.told) > maxUnknown
}
