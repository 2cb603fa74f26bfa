package testkit

import (
	"net"
	"sync"
)

// claims :: port → what keeps it for this process.
var claims sync.Map

// claim reports whether a port is now this process's alone. It is a name that one process can listen on:
// the system forgets it when the process ends, and no file is left.
func claim(port string) bool {
	l, err := net.Listen("unix", "@understudy-test-port-"+port)
	if err != nil {
		return false
	}
	claims.Store(port, l)
	return true
}
