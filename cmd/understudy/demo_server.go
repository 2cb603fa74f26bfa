package main

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"time"

	"understudy/cmd/understudy/demo"
	"understudy/cmd/understudy/port"
	"understudy/cmd/understudy/storage"
	"understudy/cmd/understudy/telemetry"
)

// serveDemo runs the server of the demo: the real one, over its real ports. What it shows does not depend on how fast
// the machine is.
func serveDemo(ctx context.Context, dir string, log io.Writer, announce func(map[string]string)) error {
	c := demoConfig(dir)
	c.decisionTimeout, c.preview.timeout = time.Minute, time.Minute
	return serve(ctx, c, nil, log, announce)
}

// executeForDemo runs a command of the demo in this process. Nobody is asked anything.
func executeForDemo(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(strings.NewReader(""))
	root.SetOut(stdout)
	root.SetErr(stderr)
	return root.ExecuteContext(ctx)
}

// demoConfig is also what tests begin with: free ports, a store in dir, and no snapshot
// file, so that nothing of one run is found by the next.
func demoConfig(dir string) config {
	return config{
		Config: storage.Config{
			Store:    storage.BoltScheme + filepath.Join(dir, "understudy.db"),
			Location: demo.Location, Policy: demo.Policy,
		},
		portsConfig:  portsConfig{authzSocketMode: "0660", tlsReload: 5 * time.Second},
		authzConfig:  authzConfig{authzAddr: "127.0.0.1:0", connections: port.DefaultConnections},
		adminConfig:  adminConfig{adminAddr: "127.0.0.1:0"},
		healthConfig: healthConfig{healthAddr: "127.0.0.1:0"},
		decisionsConfig: decisionsConfig{
			defaultDecision: "deny", decisionTimeout: time.Second, failWithError: failNot, decisionCache: defaultDecisionCache,
		},
		shutdownConfig: shutdownConfig{shutdownTimeout: 5 * time.Second},
		logConfig:      logConfig{logFormat: "text", logLevel: "info"},
		audit:          telemetry.Audit{Mode: "best-effort"},
		node:           "demo", enable: []string{"authz", "admin"},
	}
}
