package report

import "math"

const (
	// minEffective is how many requests of equal weight a share has to be as precise as: of fewer,
	// it is not known.
	minEffective = 30
	// outside is the probability beyond a bound of 95 %, and on each side of an interval of 95 % half
	// of it.
	outside = 0.05
	// rounding is what sums of weights are off by.
	rounding = 1e-6
)

// interval returns the exact binomial (Clopper-Pearson) two-sided 95 % interval of a share of n
// requests of equal weight. Of requests that weigh differently neither number is whole: n is rounded
// down, and the requests of the share away from it, so that the interval is never too narrow.
func interval(share, n float64) (low, high float64) {
	n = math.Floor(n + rounding)
	if n < 1 {
		return 0, 1
	}
	part := share * n
	return 1 - upperLimit(n-math.Floor(part+rounding), n, outside/2), upperLimit(math.Ceil(part-rounding), n, outside/2)
}

// upperLimit returns the exact binomial (Clopper-Pearson) upper limit: the probability of which k of n,
// or fewer, are just so unlikely. It is for who looks once, at an n that k did not choose.
func upperLimit(k, n, unlikely float64) float64 {
	return leastExcluded(k, n, func(k, n, p float64) bool { return atMostK(k, n, p) <= unlikely })
}

// watchedLimit returns an upper limit of 95 % for who looks as often as he likes, and may stop whenever
// he likes what he sees: in at most 5 % of runs it is ever below the true probability.
//
// If that is p, what k of n is worth against it, the mean of (q/p)^k ((1-q)/(1-p))^(n-k) over all q
// below p, is 1 on average whatever was seen before, so that it ever reaches 20 with a probability of 5 %
// (Ville's inequality; a sequential test by mixtures, Robbins 1970). The integral over q is a sum of
// binomial probabilities.
func watchedLimit(k, n float64) float64 {
	return leastExcluded(k, n, func(k, n, p float64) bool {
		return 1-atMostK(k, n+1, p) >= (n+1)*p*justK(k, n, p)/outside
	})
}

// mostCounted bounds n: of more, a limit is that of the same share of so many, which is a little larger.
// The time that a limit takes grows with the root of n, and anyone who keeps evidence bounds no count.
const mostCounted = 1e7

// leastExcluded returns the least probability above k/n of which k of n exclude it; they exclude all above
// it, too.
func leastExcluded(k, n float64, exclude func(k, n, p float64) bool) float64 {
	if n > mostCounted {
		k, n = math.Ceil(k*(mostCounted/n)), mostCounted
	}
	if k >= n {
		return 1
	}
	low, high := k/n, 1.0
	for range 50 {
		if middle := (low + high) / 2; exclude(k, n, middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}

// atMostK is the probability that at most k of n requests are of a kind that has the probability p,
// which is more than k/n: from k down, each number is less likely than the one before it.
func atMostK(k, n, p float64) (sum float64) {
	for term := justK(k, n, p); k >= 0 && term > sum*1e-12; k-- {
		sum += term
		term *= k / (n - k + 1) * (1 - p) / p
	}
	return sum
}

// justK is the probability that just k of n are of a kind that has the probability p.
func justK(k, n, p float64) float64 {
	logFactorial := func(x float64) float64 { log, _ := math.Lgamma(x + 1); return log }
	return math.Exp(logFactorial(n) - logFactorial(k) - logFactorial(n-k) + k*math.Log(p) + (n-k)*math.Log1p(-p))
}
