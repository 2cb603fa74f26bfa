// Understudy rehearses an authorization policy on live traffic before it goes live.
// `understudy serve` is the sidecar and the admin API; the other commands are clients of
// it, or work on files.
//
// This package is main and the wiring of serve. A server has two halves, each of which can
// be turned off: the sidecar, which Envoy asks, and the admin API, which changes policies.
// Both share a store and nothing else, so that they can as well run on different machines:
//
//	Envoy → authz ports → sidecar ← store ← admin API ← operators
//
// serve goes through four steps. config reads flags and environment, and refuses all
// mistakes at once. newServer opens the store, starts telemetry and binds the ports. run
// serves them, until the process is asked to end or a part fails. Then the parts end in
// order: readiness, ports, sidecar, telemetry, store; and all of that has one bounded time
// (shutdown.go).
//
// The flags of a part are in the file of the part, next to what they configure. Rooms below
// this one have what is not wiring: cli and author are the commands, port, telemetry,
// storage and lifecycle what a server is made of.
package main

import (
	"context"
	"os"
)

// main gives run the process: arguments, streams and the exit code.
func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
