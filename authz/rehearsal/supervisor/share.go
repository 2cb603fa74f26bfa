package supervisor

import (
	"time"

	"understudy/authz/rehearsal/process"
)

const (
	// shareEvery is the time between two looks at what a child has used.
	shareEvery = 100 * time.Millisecond
	// mostSaved and mostOwed bound how much of its share a child may have left, or have
	// used too early: a compilation can be as long as it likes.
	mostSaved = 200 * time.Millisecond
	mostOwed  = -2 * time.Second
)

// share is a child's part of the container's quota of processors: when that is used up, the
// system stops all of the container, and priorities are of no help.
type share struct {
	// rate is the part of a second that the child gets each second; zero means as much as
	// it likes.
	rate  float64
	last  time.Time
	used  time.Duration
	saved time.Duration
}

func newShare(part float64) *share {
	sh := &share{last: time.Now()}
	if quota, ok := process.Quota(); ok {
		sh.rate = quota * part
	}
	return sh
}

// due reports whether it is time to look.
func (sh *share) due() bool { return sh.rate > 0 && time.Since(sh.last) >= shareEvery }

// spent notes what the child has used since it began, and reports whether that is too much.
func (sh *share) spent(used time.Duration) bool {
	now := time.Now()
	sh.saved += time.Duration(float64(now.Sub(sh.last))*sh.rate) - (used - sh.used)
	sh.saved = max(mostOwed, min(sh.saved, mostSaved))
	sh.last, sh.used = now, used
	return sh.saved < 0
}

// scarce reports whether the child has used too much, or soon will have.
func (sh *share) scarce() bool { return sh.rate > 0 && sh.saved < mostSaved/2 }
