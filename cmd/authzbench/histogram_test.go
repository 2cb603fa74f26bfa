package main

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestPercentiles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var h histogram
	var all []time.Duration
	for range 20_000 {
		d := time.Duration(r.ExpFloat64() * float64(10*time.Millisecond))
		h.add(d)
		all = append(all, d)
	}
	slices.Sort(all)
	for _, p := range []float64{0, .01, .5, .9, .99, .999, 1} {
		exact := all[max(0, int(p*float64(len(all))+.999999)-1)]
		got := h.percentile(p)
		if got < exact || float64(got) > float64(exact)*(1+1.0/128)+1 {
			t.Errorf("percentile %v is %v; want %v or up to a 128th more", p, got, exact)
		}
	}
}

func TestBuckets(t *testing.T) {
	last := -1
	for bits := 2; bits < 42; bits++ {
		for _, d := range []time.Duration{1<<bits - 1, 1 << bits, 1<<bits + 1} {
			b := bucketOf(d)
			if upper := upperBound(b); upper < d || float64(upper-d) > float64(d)/128 {
				t.Errorf("%d is in bucket %d, up to %d", d, b, upper)
			}
			if b < last {
				t.Errorf("%d is in bucket %d, below that of a shorter one", d, b)
			}
			last = b
		}
	}
	if got := bucketOf(1 << 62); got != bucketCount-1 {
		t.Errorf("the longest is in bucket %d; want %d", got, bucketCount-1)
	}
	if got := bucketOf(-5); got != 0 {
		t.Errorf("a clock that went back is in bucket %d", got)
	}
}

func TestMerge(t *testing.T) {
	var a, b histogram
	if got := a.percentile(.5); got != 0 {
		t.Errorf("the median of nothing is %v", got)
	}
	for i := range 100 {
		a.add(time.Duration(i))
		b.add(time.Duration(100 + i))
	}
	a.merge(&b)
	if got := a.percentile(.5); got != 99 {
		t.Errorf("the median of 0 to 199 ns is %v; want 99 ns", got)
	}
}
