package main

import (
	"bytes"
	"context"
	_ "embed" // envoy.tmpl
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"
	"time"
)

//go:embed envoy.tmpl
var envoyTemplate string

// proxy is an Envoy process and the address, host:port, of its only listener.
type proxy struct {
	*process
	address string
}

// envoySettings are the values that envoy.tmpl asks for. The template, not Go structs:
// what is measured should read like the configuration of an operator.
type envoySettings struct {
	Port int
	// Server is the port of who is asked; empty without the filter.
	Server string
	// Keys is the key set by which Envoy verifies tokens; empty if it does not.
	Keys string
}

// findEnvoy returns the program: what was named, $ENVOY, or that of the PATH. What the
// user named has to be there; the other places may be empty. Nothing is downloaded.
func findEnvoy(named string) (string, error) {
	for _, candidate := range []string{named, os.Getenv("ENVOY"), "envoy"} {
		if candidate == "" {
			continue
		}
		path, err := exec.LookPath(candidate)
		if err == nil || candidate == named {
			return path, err
		}
	}
	return "", errors.New("there is no Envoy: name it with --envoy or $ENVOY; .ci/envoy prints one and says how to get it")
}

// envoyProgram is the program, and where its processes run and have their files.
type envoyProgram struct {
	path   string
	cpus   cpuList
	folder string
}

// chain is what one Envoy is there for.
type chain struct {
	name string
	// server is the address of who is asked; empty without the filter.
	server string
	// keys is the key set by which Envoy verifies tokens; empty if it does not.
	keys string
}

// start starts an Envoy for a chain, and waits until it answers. One worker thread
// (--concurrency 1), so that its processor time is that of one processor as the
// servers' is. Hot restart is off because it uses shared memory by a number that all
// Envoys of a machine would share.
func (e envoyProgram) start(ctx context.Context, c chain) (*proxy, error) {
	settings := envoySettings{Keys: c.keys}
	if c.server != "" {
		_, port, err := net.SplitHostPort(c.server)
		if err != nil {
			return nil, fmt.Errorf("the address of %s: %w", c.name, err)
		}
		settings.Server = port
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	settings.Port = port
	file, err := settings.write(e.folder, c.name)
	if err != nil {
		return nil, err
	}
	p, err := startProcess("envoy", e.cpus, exec.Command(e.path, "-c", file, "--concurrency", "1", "--log-level", "error",
		"--disable-hot-restart"), nil)
	if err != nil {
		return nil, err
	}
	out := &proxy{p, fmt.Sprintf("127.0.0.1:%d", port)}
	if err := out.await(ctx); err != nil {
		p.stop()
		return nil, err
	}
	return out, nil
}

// write makes the configuration file of one Envoy in a folder.
func (s envoySettings) write(folder, name string) (string, error) {
	t, err := template.New("envoy").Parse(envoyTemplate)
	if err != nil {
		return "", err
	}
	var content bytes.Buffer
	if err := t.Execute(&content, s); err != nil {
		return "", err
	}
	file := filepath.Join(folder, "envoy-"+strings.ReplaceAll(name, " ", "-")+".yaml")
	return file, os.WriteFile(file, content.Bytes(), 0o600)
}

// freePort returns a port that was free a moment ago. Envoy cannot say which port it
// chose without an admin page. Another process may take the port meanwhile; then Envoy
// ends at once, and start fails with what it wrote.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// await waits until Envoy answers over HTTP, or ends. Any status is an answer: a server
// that denies is ready as well.
func (p *proxy) await(ctx context.Context) error {
	for deadline := time.Now().Add(startTime); time.Now().Before(deadline); {
		response, err := http.Get("http://" + p.address + "/")
		if err == nil {
			return response.Body.Close()
		}
		select {
		case <-p.exited:
			return fmt.Errorf("envoy ended: %s", p.output.last())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return fmt.Errorf("envoy does not answer: %s", p.output.last())
}
