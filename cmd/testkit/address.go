package testkit

import (
	"math/rand/v2"
	"net"
	"strconv"
)

// FreeAddress returns an address of this machine on which a test can listen later. Nothing listens
// on it. Until this process ends no other test gets its port, and no client, since systems give
// clients ports from 32768 on.
func FreeAddress() string {
	const first, ports = 10_000, 20_000
	for {
		port := strconv.Itoa(first + rand.IntN(ports))
		if !claim(port) {
			continue
		}
		address := net.JoinHostPort("127.0.0.1", port)
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
}
