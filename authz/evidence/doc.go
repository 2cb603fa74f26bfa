// Package evidence counts what the comparisons with an experiment come to, in bounded memory.
//
// A [Tally] counts the comparisons with one content of an experiment in one process: by live
// policy, kind of difference, endpoint and group. [Patterns] fold the paths of requests, so
// that an endpoint is a method and a path pattern such as /orders/*. What a tally has counted
// is an Evidence, the message that sidecars publish; [Merge] adds several up, in any order,
// and no request is lost or counted twice on the way: what there is no room for is counted
// as other. A [Ledger] has the tallies of a sidecar, and what of them is to be published.
package evidence
