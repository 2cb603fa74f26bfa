package recent

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"understudy/authz"
)

// KeepTime is for how long a request is kept.
const KeepTime = time.Hour

const (
	// sweepTime is the time between two looks for those that were kept for longer.
	sweepTime = 15 * time.Second
	// maxBytes bounds the memory of all that is kept, and maxBody the body of each, in bytes.
	maxBytes = 16 << 20
	maxBody  = 4 << 10
)

// Version is a live policy, by its resource name, under an etag.
type Version struct{ Policy, Etag string }

// Request is one that was kept, with the live decision on it. It is immutable.
type Request struct {
	// Version is the live policy that decided.
	Version Version
	// At is when it was kept.
	At       time.Time
	Kept     authz.Kept
	Decision authz.Decision

	// rank is the number that it drew, and bytes about the memory that it takes.
	rank  uint64
	bytes int
}

// Requests are those that are kept. They are safe for concurrent use; nil keeps none.
type Requests struct {
	most int
	// draw and clock are rand.Uint64 and time.Now, but in tests.
	draw  func() uint64
	clock func() time.Time
	// least is the highest number of a request that had to go: one that is not above it is not
	// kept. Zero while there is room.
	least atomic.Uint64

	mu    sync.Mutex
	kept  byRank
	bytes int
}

// New returns a sample of at most so many requests; nil, which keeps none, for zero.
func New(most int) *Requests {
	if most <= 0 {
		return nil
	}
	return &Requests{most: most, draw: rand.Uint64, clock: time.Now}
}

// Offer keeps a request that a live policy has decided, if chance wants it, its front can
// make it again and its body is small. It never waits: while somebody else works at the
// sample, the request is passed over.
func (s *Requests) Offer(by Version, r *authz.Request, d authz.Decision) {
	if s == nil {
		return
	}
	rank := s.draw()
	if rank <= s.least.Load() || r.Sent == nil || r.Sent.BodySize() > maxBody || !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	kept, ok := r.Keep()
	if !ok {
		return
	}
	d.Value = nil // it is for the decision log
	one := &Request{
		Version: by, At: s.clock(), Kept: kept, Decision: d, rank: rank,
		bytes: bytesPerRequest + kept.Size() + sizeOf(d),
	}
	heap.Push(&s.kept, one)
	s.bytes += one.bytes
	for len(s.kept) > s.most || s.bytes > maxBytes {
		gone := heap.Pop(&s.kept).(*Request)
		s.bytes -= gone.bytes
		s.least.Store(gone.rank)
	}
}

// Of returns the requests that a version of a policy has decided and that were kept after one
// moment and before another, the earliest first.
func (s *Requests) Of(by Version, after, before time.Time) []*Request {
	if s == nil {
		return nil
	}
	s.sweep()
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*Request
	for _, r := range s.kept {
		if r.Version == by && r.At.After(after) && r.At.Before(before) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *Request) int { return a.At.Compare(b.At) })
	return out
}

// Forget ends what other versions of a policy have decided than one: no other can be replayed, for the
// decisions of now are not known of it.
func (s *Requests) Forget(except Version) {
	if s != nil {
		s.remove(func(r *Request) bool { return r.Version.Policy == except.Policy && r.Version != except })
	}
}

// Run ends what was kept for an hour, until ctx is done, and then all.
func (s *Requests) Run(ctx context.Context) {
	if s == nil {
		return
	}
	ticker := time.NewTicker(sweepTime)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			s.remove(func(*Request) bool { return true })
			return
		case <-ticker.C:
			s.sweep()
		}
	}
}

// sweep ends what was kept for too long.
func (s *Requests) sweep() {
	oldest := s.clock().Add(-KeepTime)
	s.remove(func(r *Request) bool { return r.At.Before(oldest) })
}

// remove ends what is gone. Where that makes room, the next requests take it, whatever they
// draw.
func (s *Requests) remove(gone func(*Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.kept)
	s.kept = slices.DeleteFunc(s.kept, func(r *Request) bool {
		if !gone(r) {
			return false
		}
		s.bytes -= r.bytes
		return true
	})
	if len(s.kept) < before {
		heap.Init(&s.kept)
		s.least.Store(0)
	}
}

// byRank is a heap with the lowest rank first.
type byRank []*Request

func (b byRank) Len() int           { return len(b) }
func (b byRank) Less(i, j int) bool { return b[i].rank < b[j].rank }
func (b byRank) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }

// Push is of heap.Interface.
func (b *byRank) Push(r any) { *b = append(*b, r.(*Request)) }

// Pop is of heap.Interface.
func (b *byRank) Pop() any {
	last := len(*b) - 1
	r := (*b)[last]
	(*b)[last] = nil
	*b = (*b)[:last]
	return r
}
