package main

import (
	"math/bits"
	"time"
)

const (
	// precisionBits: a bucket is at most 1/128 of its value wide.
	precisionBits = 7
	// maxDuration is the largest value that is told apart, about 73 minutes.
	maxDuration = 1<<42 - 1
)

// histogram counts durations in buckets that grow with their value: exact below
// 256 ns, within 0.8 % above. The zero value is empty. It is for one goroutine.
type histogram struct {
	counts [bucketCount]uint64
	total  uint64
}

const bucketCount = (42 - precisionBits + 1) << precisionBits

func (h *histogram) add(d time.Duration) {
	h.counts[bucketOf(d)]++
	h.total++
}

func (h *histogram) merge(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
}

// percentile returns a duration that a part p, from 0 to 1, of all durations does
// not exceed; 0 if there are none.
func (h *histogram) percentile(p float64) time.Duration {
	if h.total == 0 {
		return 0
	}
	rank := min(max(uint64(p*float64(h.total)+0.999999), 1), h.total)
	var seen uint64
	for i, n := range h.counts {
		if seen += n; seen >= rank {
			return upperBound(i)
		}
	}
	return maxDuration
}

// bucketOf: the first 256 values have their own bucket; then each power of two has
// 128.
func bucketOf(d time.Duration) int {
	v := uint64(min(max(d, 0), maxDuration))
	shift := max(bits.Len64(v)-precisionBits-1, 0)
	return shift<<precisionBits + int(v>>shift)
}

// upperBound is the largest duration of a bucket.
func upperBound(bucket int) time.Duration {
	if bucket < 2<<precisionBits {
		return time.Duration(bucket)
	}
	shift := bucket>>precisionBits - 1
	mantissa := uint64(bucket&(1<<precisionBits-1) | 1<<precisionBits)
	return time.Duration((mantissa+1)<<shift - 1)
}
