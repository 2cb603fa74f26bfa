package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// target is a server that is measured, and the connections to it.
type target struct {
	name    string
	address string
	// pid is 0 if it is not known: then there is no processor time.
	pid int
	// metrics is the URL of its Prometheus page, if it has one.
	metrics string
	// foreign: it was not started here, and decides by what its user gave it.
	foreign bool
	client  *client
	stop    func()
}

// parseTarget reads name=address[,pid=N][,metrics=URL].
func parseTarget(text string) (target, error) {
	parts := strings.Split(text, ",")
	name, address, found := strings.Cut(parts[0], "=")
	if !found || name == "" || address == "" {
		return target{}, fmt.Errorf("--target %q: it is like name=host:port,pid=123,metrics=http://host:port/metrics", text)
	}
	t := target{name: name, address: address, foreign: true, stop: func() {}}
	for _, part := range parts[1:] {
		key, value, _ := strings.Cut(part, "=")
		switch key {
		case "pid":
			pid, err := strconv.Atoi(value)
			if err != nil || pid <= 0 {
				return target{}, fmt.Errorf("--target %q: pid is the number of a process", text)
			}
			t.pid = pid
		case "metrics":
			t.metrics = value
		default:
			return target{}, fmt.Errorf("--target %q: there is no %q; it takes pid and metrics", text, key)
		}
	}
	return t, nil
}

// fleet is the servers of one policy, all running at the same time: they are measured
// in turn, and those that wait take next to nothing.
type fleet struct {
	targets []*target
	// closers end what belongs to the servers, such as a receiver of records. They run after the
	// servers.
	closers []func()
}

// stop ends all servers at the same time. Foreign ones go on.
func (f *fleet) stop() {
	var wait sync.WaitGroup
	for _, t := range f.targets {
		if t.client != nil {
			_ = t.client.close()
		}
		wait.Go(t.stop)
	}
	wait.Wait()
	for _, c := range f.closers {
		c()
	}
}

// add connects to a server that runs. The target is in the fleet even if that fails, so
// that stop ends its process.
func (f *fleet) add(t target, connections int) error {
	f.targets = append(f.targets, &t)
	var err error
	t.client, err = dial(t.address, connections)
	return err
}

// starter starts the servers of a run, again for each policy.
type starter struct {
	cpus        cpuList
	folder      string
	connections int
	// servers are kinds: noop, stock, understudy. There is one target for each binary
	// of understudies.
	servers      []string
	understudies []understudy
	foreign      []target
}

// start starts all servers with a policy and connects to them. If one fails, those that
// run are stopped.
func (s *starter) start(ctx context.Context, p policySpec) (*fleet, error) {
	f := &fleet{}
	file, err := writePolicy(s.folder, p)
	if err != nil {
		return nil, err
	}
	for _, name := range s.servers {
		switch name {
		case "noop":
			err = s.startOwn(ctx, f, name, "server", "noop")
		case "stock":
			err = s.startOwn(ctx, f, name, "server", "stock", file)
		case "understudy":
			for _, u := range s.understudies {
				_, one := s.startUnderstudy(ctx, f, u, p)
				err = errors.Join(err, one)
			}
		}
		if err != nil {
			f.stop()
			return nil, err
		}
	}
	for _, t := range s.foreign {
		if err := f.add(t, s.connections); err != nil {
			f.stop()
			return nil, err
		}
	}
	return f, nil
}

// writePolicy writes the file that `server stock` reads: data may be megabytes, too
// long for an argument.
func writePolicy(folder string, p policySpec) (string, error) {
	content, err := json.Marshal(p)
	if err != nil {
		return "", err
	}
	file := filepath.Join(folder, p.Name+".json")
	return file, os.WriteFile(file, content, 0o600)
}

// startOwn starts this program as a server: the no-op or stock.
func (s *starter) startOwn(ctx context.Context, f *fleet, name string, arguments ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	bound := make(chan listenReport, 1)
	p, err := startProcess(name, s.cpus, exec.Command(self, arguments...), func(line string) {
		var l listenReport
		if json.Unmarshal([]byte(line), &l) == nil && l.Authz != "" {
			bound <- l
		}
	})
	if err != nil {
		return err
	}
	l, err := await(ctx, p, bound)
	if err != nil {
		p.stop()
		return err
	}
	return f.add(target{
		name: name, address: l.Authz, pid: p.pid(), metrics: "http://" + l.Metrics + "/metrics", stop: p.stop,
	}, s.connections)
}

// startUnderstudy starts a binary and puts the policy by its API, as an administrator
// would: what is measured has gone through the store and the compiler.
func (s *starter) startUnderstudy(ctx context.Context, f *fleet, u understudy, p policySpec) (*node, error) {
	n, err := u.start(ctx, s.cpus, s.folder)
	if err != nil {
		return nil, err
	}
	if err := n.putPolicy(ctx, p); err != nil {
		n.stop()
		return nil, fmt.Errorf("giving %s the policy %s: %w", u.name, p.Name, err)
	}
	return n, f.add(target{
		name: u.name, address: n.authz, pid: n.pid(), metrics: "http://" + n.health + "/metrics", stop: n.stop,
	}, s.connections)
}
