package main

import (
	"math/bits"
	"time"
)

const (
	// precisionBits: a bucket is at most 1/128 of its value wide, 0.8 %. That is far
	// less than rounds differ, and the array stays at 36 KiB for each sender.
	precisionBits = 7
	// maxDuration is the largest value that has a bucket of its own, in nanoseconds:
	// about 73 minutes. What is longer counts as that.
	maxDuration = 1<<42 - 1
)

// histogram counts durations in buckets that grow with their value: exact below 256 ns,
// within 0.8 % above. The zero value is empty. It is for one goroutine; each sender
// fills its own, and merge adds them at the end.
//
// Keeping every duration instead would take memory that grows with the throughput, and
// sorting them would be work next to the next server's measurement. For example 1,000
// ns:
//
//	1000 = 1111101000b, 10 bits; its first 8 bits are 250, the shift is 2
//	bucket = 2<<7 + 250 = 506, which holds 1000 to 1003 ns
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

// percentile returns a duration that a part p, from 0 to 1, of all durations does not
// exceed; 0 if there are none. It is the upper bound of a bucket, so never less than
// the true value. The rank is rounded up: with 10 values, .99 is the largest one.
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

// bucketOf returns the bucket of a duration: the first 256 values have their own, then
// each power of two has 128. The leading bit of v>>shift adds 128 by itself, so that
// the buckets of neighbouring powers of two follow one another without a gap.
func bucketOf(d time.Duration) int {
	v := uint64(min(max(d, 0), maxDuration))
	shift := max(bits.Len64(v)-precisionBits-1, 0)
	return shift<<precisionBits + int(v>>shift)
}

// upperBound is the largest duration of a bucket: the inverse of bucketOf.
func upperBound(bucket int) time.Duration {
	if bucket < 2<<precisionBits {
		return time.Duration(bucket)
	}
	shift := bucket>>precisionBits - 1
	mantissa := uint64(bucket&(1<<precisionBits-1) | 1<<precisionBits)
	return time.Duration((mantissa+1)<<shift - 1)
}
