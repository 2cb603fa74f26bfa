// Package compactor keeps the evidence in a store small and true.
//
// Each tally of a sidecar has a record of its own in the store. When it is over, because it says
// so, because a later process of its node has taken its place, or because nothing came for a day,
// a Compactor folds it into the experiment's compacted record, in one step of the store with which the
// tally is gone: never lost, never twice, however many control planes do so at once. Evidence of an
// earlier content of the experiment is left out, and evidence of an experiment that is gone is
// dropped.
//
// It runs next to the API on each control plane, once a minute or so, and has no state that
// matters: what one leaves undone, another one does.
package compactor
