// Package servertest has servers of package extauthz for tests: with a decider that is a
// function, a policy, or a running sidecar with its metrics.
package servertest
