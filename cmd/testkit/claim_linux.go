package testkit

import (
	"net"
	"sync"
)

// claims :: port → the socket that reserves it.
var claims sync.Map

// claim reserves a port for this process, and reports whether no other process has it. It listens on an abstract
// socket of that name, which the system closes when the process ends, and which leaves no file.
func claim(port string) bool {
	l, err := net.Listen("unix", "@understudy-test-port-"+port)
	if err != nil {
		return false
	}
	claims.Store(port, l)
	return true
}
