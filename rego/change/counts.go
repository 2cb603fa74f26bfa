package change

import "slices"

// Enough is how many requests have to show an item: after that it is not looked for any more.
const Enough = 100

// Counts are how many requests have shown each item of a list, up to [Enough].
type Counts struct {
	conditions []bool
	// shown and untrue are by place in the list; untrue are those of conditions.
	shown, untrue []int32
	// repeated is what requests have shown of which it is not known whether they are distinct from others: together
	// they count as one at most.
	repeated []Shown
	// left is how many items are still looked for, and unseen how many no request has shown.
	left, unseen int
}

// NewCounts returns counts of no requests for a list, of which some items are conditions.
func NewCounts(conditions []bool) *Counts {
	n := len(conditions)
	return &Counts{
		conditions: conditions, shown: make([]int32, n), untrue: make([]int32, n), repeated: make([]Shown, n), left: n, unseen: n,
	}
}

// Conditions says of each item whether it is a condition.
func (l *List) Conditions() []bool {
	out := make([]bool, len(l.Items))
	for i, item := range l.Items {
		out[i] = item.Kind == Condition
	}
	return out
}

// Pending reports whether requests may show more of an item.
func (c *Counts) Pending(item int) bool {
	return c.shown[item] < Enough || c.conditions[item] && c.untrue[item] < Enough
}

// Done reports whether no item is looked for any more.
func (c *Counts) Done() bool { return c.left == 0 }

// AllSeen reports whether requests have shown what each item does.
func (c *Counts) AllSeen() bool { return c.unseen == 0 }

// Seen reports whether requests have shown what an item does.
func (c *Counts) Seen(item int) bool {
	return c.times(item, True) > 0 && (!c.conditions[item] || c.times(item, False) > 0)
}

// times is how many requests have shown one thing of an item.
func (c *Counts) times(item int, what Shown) int32 {
	n := c.shown[item]
	if what == False {
		n = c.untrue[item]
	}
	if c.repeated[item]&what != 0 {
		n = max(1, n)
	}
	return n
}

// Add adds what a request has shown of an item, and reports whether that was counted.
func (c *Counts) Add(item int, what Shown) (news bool) {
	if item < 0 || item >= len(c.shown) || !c.Pending(item) {
		return false
	}
	seen := c.Seen(item)
	if what&True != 0 {
		c.shown[item] = min(Enough, c.shown[item]+1)
	}
	if what&False != 0 {
		c.untrue[item] = min(Enough, c.untrue[item]+1)
	}
	if !c.Pending(item) {
		c.left--
	}
	c.see(item, seen)
	return true
}

// AddRepeated is Add for a request that may be one of those that were added. Any number of such requests count
// as one.
func (c *Counts) AddRepeated(item int, what Shown) (news bool) {
	if item < 0 || item >= len(c.shown) || c.Seen(item) || c.repeated[item]|what == c.repeated[item] {
		return false
	}
	c.repeated[item] |= what
	c.see(item, false)
	return true
}

// see notes that an item has been seen, if it was not before.
func (c *Counts) see(item int, before bool) {
	if !before && c.Seen(item) {
		c.unseen--
	}
}

// Numbers returns the counts by place in the list, without the zeros at the end: of requests that have shown an
// item, and of those that found a condition not true.
func (c *Counts) Numbers() (shown, untrue []int32) { return c.numbers(True), c.numbers(False) }

func (c *Counts) numbers(what Shown) []int32 {
	out := make([]int32, len(c.shown))
	n := 0
	for i := range out {
		if out[i] = c.times(i, what); out[i] > 0 {
			n = i + 1
		}
	}
	return slices.Clip(out[:n])
}
