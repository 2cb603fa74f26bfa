package authz

import (
	"hash/maphash"
	"math"
)

// sampleSeed makes the choice of requests another one in each process, so that nobody can ask
// for IDs that are not recorded.
var sampleSeed = maphash.MakeSeed()

// Sampled reports whether the request of a decision ID belongs to a sample that is this part of
// all, from 0 to 1. A smaller sample is a part of a larger one, so that records of all kinds are
// of the same requests.
func Sampled(decisionID string, part float64) bool {
	return part >= 1 || float64(maphash.String(sampleSeed, decisionID)) < part*math.MaxUint64
}
