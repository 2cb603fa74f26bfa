// Package recovery puts back what a store has lost, from what a sidecar has saved of it.
//
// A store can lose a whole location, such as a Redis that was restarted empty, or single
// records, such as a Redis that evicts; or it goes back to an older state, such as a Redis that
// was started from an older dump. Sidecars go on by what they have saved. Anyone who
// operates them then either restores the saved policies or accepts what the store has; both write to
// the store itself, with or without a server on it, and make one transaction, so that
// sidecars see all of it or nothing.
package recovery
