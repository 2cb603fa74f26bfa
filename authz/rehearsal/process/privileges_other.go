//go:build !linux

package process

// keepMemory does nothing: on this system the memory of a process is its user's.
func keepMemory() {}

// unprivileged calls start.
func unprivileged(start func() error) error { return start() }
