package main

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"time"
)

// startRedis starts a private redis-server on a unix socket in folder and returns its
// URL. It keeps nothing on disk, as a store of measurements need not survive. The
// caller stops the process. The folder's name has to be short: the path of a unix
// socket is at most 107 bytes long (unix(7)).
//
// 4,000 clients: each sidecar has a few connections of its own, and 100 of them run at
// once.
func startRedis(ctx context.Context, binary, folder string, cpus cpuList) (*process, string, error) {
	path, err := exec.LookPath(binary)
	if err != nil {
		return nil, "", fmt.Errorf("--redis-server: %w; it is in the package redis-server", err)
	}
	socket := filepath.Join(folder, "redis")
	p, err := startProcess("redis-server", cpus, exec.Command(path,
		"--port", "0", "--unixsocket", socket, "--dir", folder, "--save", "", "--appendonly", "no", "--maxclients", "4000"), nil)
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	var d net.Dialer
	for {
		conn, err := d.DialContext(ctx, "unix", socket)
		if err == nil {
			return p, "unix://" + socket, conn.Close()
		}
		select {
		case <-p.exited:
			return nil, "", fmt.Errorf("redis-server ended: %s", p.output.last())
		case <-ctx.Done():
			p.stop()
			return nil, "", fmt.Errorf("waiting for redis-server: %w", ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}
