package testkit

import "testing"

// Cases returns how many of n random cases a test tries: all of them, or with -short a tenth.
func Cases(n int) int {
	if testing.Short() {
		return max(1, n/10)
	}
	return n
}

// RaceCases returns how many of n cases a test tries: all of them, or a tenth under the race
// detector, which makes code that only computes ten times slower.
func RaceCases(n int) int {
	if Race {
		return max(1, n/10)
	}
	return n
}
