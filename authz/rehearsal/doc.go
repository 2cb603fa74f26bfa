// Package rehearsal decides live requests again by experiments, off the request path, to show
// what would change if they were committed.
//
// A [Shadow] is handed a request with its live decision and the ACTIVE experiments of
// the policy, and never makes the caller wait. Each experiment decides the same request,
// with the same input and clock, and without effects. The two decisions are compared
// whole; each comparison is counted, and a [Recorder] writes it as one preview record
// (AIP-236).
package rehearsal
