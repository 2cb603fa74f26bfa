//go:build !linux

package authz

// lowerPriority does nothing: other systems give priorities to whole processes.
func lowerPriority() {}
