//go:build !linux

package background

// lowerPriority does nothing: other systems give priorities to whole processes.
func lowerPriority() {}
