package report

import "math"

const (
	// minEffective is how many requests of equal weight a share has to be as sure as: of fewer,
	// it is not known.
	minEffective = 30
	// outside is the probability on each side of an interval of 95 %.
	outside = 0.025
)

// interval returns the exact binomial (Clopper-Pearson) two-sided 95 % interval of a share of n
// requests of equal weight. Of requests that weigh differently neither number is whole: n is rounded
// down, and the requests of the share away from it, so that the interval is never too narrow.
func interval(share, n float64) (low, high float64) {
	const rounding = 1e-6 // what sums of weights are off by
	n = math.Floor(n + rounding)
	if n < 1 {
		return 0, 1
	}
	part := share * n
	return 1 - upperLimit(n-math.Floor(part+rounding), n), upperLimit(math.Ceil(part-rounding), n)
}

// upperLimit returns the probability of which k of n requests, or fewer, are just not unlikely.
func upperLimit(k, n float64) float64 {
	if k >= n {
		return 1
	}
	low, high := k/n, 1.0
	for range 50 {
		if middle := (low + high) / 2; atMostK(k, n, middle) > outside {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// atMostK is the probability that at most k of n requests are of a kind that has the probability p,
// which is more than k/n: from k down, each number is less likely than the one before it.
func atMostK(k, n, p float64) (sum float64) {
	logFactorial := func(x float64) float64 { log, _ := math.Lgamma(x + 1); return log }
	term := math.Exp(logFactorial(n) - logFactorial(k) - logFactorial(n-k) + k*math.Log(p) + (n-k)*math.Log1p(-p))
	for ; k >= 0 && term > sum*1e-12; k-- {
		sum += term
		term *= k / (n - k + 1) * (1 - p) / p
	}
	return sum
}
