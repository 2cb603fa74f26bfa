// Package publisher brings what a sidecar has counted to the store.
//
// A Publisher asks the sidecar's ledger what is due, about once in an interval, and publishes
// it. Nothing is lost while the store is away, for tallies go on counting and each publication
// replaces the one before; a publication whose fate is unknown is made again, as it was,
// which counts nothing twice. A tally that the store has settled goes on as another one, from
// exactly what was settled.
//
// A Pace says how often a sidecar may write to the store: the more nodes there are, the less
// often, so that a location of 1,000 makes 500 writes a second at most.
package publisher
