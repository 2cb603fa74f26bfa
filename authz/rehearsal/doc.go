// Package rehearsal decides live requests again, off the request path: by experiments, to
// show what would change if they were committed, and from the whole input, to verify the
// shortcuts of live decisions.
//
// A [Shadow] is handed a request with its live decision and the ACTIVE experiments of
// the policy, and never makes the caller wait. Each experiment decides the same request,
// with the same input and clock, and without effects. The two decisions are compared
// whole; each comparison is counted, and a [Recorder] writes it as one preview record
// (AIP-236). A [Verifier] draws some live decisions by chance.
package rehearsal
