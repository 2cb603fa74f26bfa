package testkit

import (
	"math/rand/v2"
	"net"
	"strconv"
)

// FreeAddress returns an address of this machine on which a test can listen later. Nothing listens
// on it, and no client gets its port in the meantime: systems give clients ports from 32768 on.
func FreeAddress() string {
	const first, ports = 10_000, 2_000
	for {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(first+rand.IntN(ports)))
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
}
