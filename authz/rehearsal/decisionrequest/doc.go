// Package decisionrequest makes what the rehearsal process is asked about a request that a live policy
// has decided.
//
// [Live] is that policy, and [LivePolicies] are those that the process has compiled, too. A
// [Maker] makes the request: of the bytes that Envoy sent, as they are, or of the input
// document if there are none.
package decisionrequest
