package evidence

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"
)

const (
	// sketchRows is how many counters a name has: the least of them is the estimate.
	sketchRows = 4
	// pathColumns and labelColumns are the counters of a row, which are powers of two.
	pathColumns  = 4096
	labelColumns = 1024
)

// sketch estimates how often each of any number of names was counted, in memory that does not
// grow: never too low, and too high where all counters of a name are shared (a count-min
// sketch: Cormode, Muthukrishnan 2005; with conservative update: Estan, Varghese 2002). It is
// safe for concurrent use, but of names counted at the same moment some may be missed.
type sketch struct {
	seed maphash.Seed
	rows [sketchRows][]atomic.Uint32
}

// newSketch returns a sketch. Its seed is its own, so that nobody can choose names that share
// their counters.
func newSketch(columns int) *sketch {
	s := &sketch{seed: maphash.MakeSeed()}
	for i := range s.rows {
		s.rows[i] = make([]atomic.Uint32, columns)
	}
	return s
}

// add counts a name n times, and returns how often it was counted. The salt tells equal names
// of several nodes apart.
func (s *sketch) add(salt uint64, name string, n uint32) uint32 {
	hash := maphash.String(s.seed, name) ^ salt
	step := bits.RotateLeft64(hash, 32) | 1
	var counters [sketchRows]*atomic.Uint32
	least := ^uint32(0)
	for i, row := range s.rows {
		counters[i] = &row[hash&uint64(len(row)-1)]
		least = min(least, counters[i].Load())
		hash += step
	}
	least += min(n, ^uint32(0)-least)
	for _, c := range counters {
		if known := c.Load(); known < least {
			c.CompareAndSwap(known, least)
		}
	}
	return least
}

// halve forgets half of what was counted, so many times.
func (s *sketch) halve(times int) {
	for _, row := range s.rows {
		for i := range row {
			row[i].Store(row[i].Load() >> times)
		}
	}
}
