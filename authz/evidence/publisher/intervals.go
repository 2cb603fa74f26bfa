package publisher

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

const (
	// shortest is the least time between two reports, and between two publications, of a node.
	shortest = 2 * time.Second
	// writes is how many reports a location makes in a second at most, and how many
	// publications: together 500.
	writes = 250
	// longestReport bounds the time between two reports: a node counts as dead after
	// authz.NodeLifetime, which has to be more than two of them.
	longestReport = 4 * time.Second
)

// Intervals say how often a node writes to the store, by the number of nodes of its location. The
// zero Intervals know no other node. They are safe for concurrent use.
type Intervals struct{ nodes atomic.Int64 }

// SetNodes says how many nodes there are.
func (p *Intervals) SetNodes(n int) { p.nodes.Store(int64(n)) }

// Publication is the time between two publications: 2 s, and 4 ms for each node beyond 500.
func (p *Intervals) Publication() time.Duration {
	return max(shortest, time.Duration(p.nodes.Load())*time.Second/writes)
}

// Change is the least time between two publications if something besides counts has changed: as
// often as the location may write at all.
func (p *Intervals) Change() time.Duration {
	return time.Duration(p.nodes.Load()) * time.Second / writes
}

// Report is the time between two reports of the node itself: that between two publications,
// and 4 s at most.
func (p *Intervals) Report() time.Duration { return min(p.Publication(), longestReport) }

// Jittered is a duration give or take a tenth, so that nodes that started together do not go
// on together.
func Jittered(d time.Duration) time.Duration { return d*9/10 + rand.N(max(1, d/5)) }
