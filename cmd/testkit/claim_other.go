//go:build !linux

package testkit

import "sync"

// claims :: port → true.
var claims sync.Map

// claim reserves a port in this process, and reports whether it was not reserved before.
func claim(port string) bool {
	_, taken := claims.LoadOrStore(port, true)
	return !taken
}
