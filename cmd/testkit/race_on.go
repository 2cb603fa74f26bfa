//go:build race

package testkit

// Race is whether the test binary was built with the race detector.
const Race = true
