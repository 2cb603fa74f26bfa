package examine

import "time"

// The same leaves do not say which row of data decided: "the user is in the list" is learned of Ada as of Eve. Nor do
// they say what a policy would ask of a request without one of the items. And of a policy whose decisions are not cached no leaves are known at all. So of the requests that may be repeated ones some
// are examined all the same, as many as cost little.
const (
	// repeatsAtOnce is how many may come at once, and repeatsPerSecond how many in the long run.
	repeatsAtOnce    = 512
	repeatsPerSecond = 20
	// repeatsKept is how much room is left to requests that the policies decide differently. Of known leaves that they
	// decide alike the first repeatsFirst are examined, and then one of repeatsOneIn.
	repeatsKept  = repeatsAtOnce / 2
	repeatsFirst = repeatsKept / 2
	repeatsOneIn = 16
	// repeatsWait is how many requests may wait when one more comes: the room of the lane is for new leaves.
	repeatsWait = 128
)

// repeats bounds how many requests are examined that may be repeated ones. The zero value has room.
type repeats struct {
	// left is how many may come, as of at.
	left float64
	at   time.Time
	// waiting is how many of known leaves wait to be examined.
	waiting int64
	// alike counts the requests of known leaves that were decided alike.
	alike int
}

// take reports whether a request is to be examined now, with so many that wait: if both policies decide it
// differently, as long as there is room; else, of known leaves, one of several.
func (r *repeats) take(now time.Time, differs, known bool, pending int64) bool {
	r.left, r.at = min(repeatsAtOnce, r.left+repeatsPerSecond*r.since(now)), now
	kept := 0.0
	if !differs {
		kept = repeatsKept
	}
	if !differs && known {
		if r.alike++; r.alike > repeatsFirst && r.alike%repeatsOneIn != 0 {
			return false
		}
	}
	if r.left < kept+1 || pending+r.waiting >= repeatsWait {
		return false
	}
	r.left--
	return true
}

// since is how many seconds have passed; enough for all room if there was no request yet.
func (r *repeats) since(now time.Time) float64 {
	if r.at.IsZero() {
		return repeatsAtOnce
	}
	return max(0, now.Sub(r.at).Seconds())
}
