// Package publisher brings what a sidecar has counted to the store.
//
// A Publisher asks the sidecar's ledger what is due, about once in an interval, and publishes
// it. Nothing is lost while the store is away, for up to twelve hours: tallies go on counting, and
// each publication replaces the one before, also one whose fate is unknown.
//
// Intervals say how often a sidecar may write to the store: the more nodes there are, the less
// often, so that a location of 1,000 makes 500 writes a second at most.
package publisher
