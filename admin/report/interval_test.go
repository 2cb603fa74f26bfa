package report

import (
	"math"
	"testing"
)

// TestInterval holds ends of intervals against their defining property, that what is as far out has
// a probability of 2.5 %, and against what is known in closed form.
func TestInterval(t *testing.T) {
	within := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-7 {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	low, high := interval(0, 48)
	within("the lower end of 0 of 48", low, 0)
	within("the upper end of 0 of 48", high, 1-math.Pow(0.025, 1./48))
	low, high = interval(1, 48)
	within("the lower end of 48 of 48", low, math.Pow(0.025, 1./48))
	within("the upper end of 48 of 48", high, 1)
	for _, c := range []struct{ k, n float64 }{{1, 30}, {9, 48}, {25, 50}, {1000, 3000}} {
		low, high := interval(c.k/c.n, c.n)
		atMost, less := 0., 0.
		for i := 0.; i <= c.k; i++ {
			atMost += binomial(i, c.n, high)
			if i < c.k {
				less += binomial(i, c.n, low)
			}
		}
		within("at most that many at the upper end", atMost, outside/2)
		within("at least that many at the lower end", 1-less, outside/2)
	}
	if low, high := interval(0.006, 48.9); low != 0 || math.Abs(high-upperLimit(1, 48, outside/2)) > 1e-9 {
		t.Errorf("of 0.3 of 48.9 requests the interval is %v to %v, want that of 0 to 1 of 48", low, high)
	}
	if low, high := interval(0.5, 0); low != 0 || high != 1 {
		t.Errorf("of nothing the interval is %v to %v, want 0 to 1", low, high)
	}
	if low, high := interval(0.01, 1e9); low < 0.0099 || high > 0.0101 || low >= high {
		t.Errorf("of many requests the interval is %v to %v, want a narrow one about 0.01", low, high)
	}
}

// TestWatchedLimit holds the limit against its defining property, with the integral made by steps: what
// is seen is worth just 20 against it.
func TestWatchedLimit(t *testing.T) {
	for _, c := range []struct{ k, n float64 }{{0, 1}, {0, 6}, {0, 960}, {1, 30}, {9, 48}, {25, 50}, {47, 48}, {40, 3000}} {
		limit := watchedLimit(c.k, c.n)
		const steps = 20_000
		var worth float64
		for i := range steps {
			q := (float64(i) + 0.5) / steps * limit
			worth += math.Exp(c.k*math.Log(q/limit)+(c.n-c.k)*(math.Log1p(-q)-math.Log1p(-limit))) / steps
		}
		if math.Abs(worth-20) > 0.01 {
			t.Errorf("%v of %v are worth %v against %v, want 20", c.k, c.n, worth, limit)
		}
		if once := upperLimit(c.k, c.n, outside); limit <= once || limit >= 1 {
			t.Errorf("who watches %v of %v has the limit %v, want one above that of who looks once, %v", c.k, c.n, limit, once)
		}
		if more := watchedLimit(c.k, c.n+1); more >= limit {
			t.Errorf("with one more that does not differ than %v of %v the limit is %v, was %v", c.k, c.n, more, limit)
		}
		if more := watchedLimit(c.k+1, c.n); more <= limit {
			t.Errorf("with one more that differs than %v of %v the limit is %v, was %v", c.k, c.n, more, limit)
		}
	}
	if got := watchedLimit(3, 3); got != 1 {
		t.Errorf("if all differ the limit is %v, want 1", got)
	}
	for _, n := range []float64{1e9, 1e18} {
		if got := watchedLimit(n/2, n); got < 0.5 || got > 0.501 {
			t.Errorf("of %v the limit is %v, want hardly more than the half that differs", n, got)
		}
	}
}

// binomial is the probability of k of n, in the simplest way.
func binomial(k, n, p float64) float64 {
	log := k*math.Log(p) + (n-k)*math.Log1p(-p)
	for i := 1.; i <= k; i++ {
		log += math.Log(n-k+i) - math.Log(i)
	}
	return math.Exp(log)
}
