//go:build !linux

package child

// Other systems bound and prioritize in other ways: there the process bounds itself alone.

func lowerPriority() {}

func boundSystem(int64, bool) {}
