package child

import "sync/atomic"

// cachePart is which part of the memory of the process all caches of decisions may take, and onePart which
// part of what is left of that one policy gets: each one in so many. So there is always room for another.
const (
	cachePart = 4
	onePart   = 4
	// mostRoom is all that they take, in bytes, also where the memory is not bounded.
	mostRoom = 256 << 20
)

// cacheRoom is the memory that is left for caches of decisions. It is safe for concurrent use.
type cacheRoom struct{ left atomic.Int64 }

// newCacheRoom returns that of a process with a bound in bytes; zero is none.
func newCacheRoom(memory int64) *cacheRoom {
	r := &cacheRoom{}
	r.left.Store(mostRoom)
	if memory > 0 {
		r.left.Store(min(mostRoom, memory/cachePart))
	}
	return r
}

// take takes the room for the cache of one policy, in bytes, which is to be given back.
func (r *cacheRoom) take() int64 {
	for {
		left := r.left.Load()
		if one := left / onePart; r.left.CompareAndSwap(left, left-one) {
			return one
		}
	}
}

func (r *cacheRoom) give(bytes int64) { r.left.Add(bytes) }
