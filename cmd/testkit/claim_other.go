//go:build !linux

package testkit

import "sync"

// claims :: port → true.
var claims sync.Map

// claim reports whether a port is now this process's alone, as far as this process knows.
func claim(port string) bool {
	_, taken := claims.LoadOrStore(port, true)
	return !taken
}
