// Package sidecar is the data plane's process-wide part: it follows the policies of one
// location and decides requests by them.
//
// A [Sidecar] follows an [authz.Feed] and holds the live policies and the ACTIVE
// experiments, compiled, in one immutable snapshot. [Sidecar.Check] takes a request the
// whole way within one snapshot: decision cache, policy, answer; then the request is
// offered to the decision log and to the rehearsal, which never delay the answer. What
// does not compile is reported, and what was there before decides on. A file has the last
// policies, for a start without the store.
package sidecar
