// Package evidence counts what the comparisons with an experiment come to, in bounded memory.
//
// A [Sum] is what the comparisons with one content of an experiment come to: by live policy, by
// what both policies decided, by endpoint and group. Comparisons are counted into it, and evidence
// is added to it: that is the message that sidecars publish, and a sum turns into it. In whichever
// order that is done, no request is lost or counted twice: what there is no room for is counted as
// other. [Patterns] fold the paths of requests, so that an endpoint is a method and a path pattern
// such as /orders/*. A [Tally] is the sum of one process, and a [Ledger] has those of a sidecar, and
// what of them is to be published.
package evidence
