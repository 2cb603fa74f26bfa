// Package examine has requests that were compared evaluated once more, for something else than
// a decision to compare: to find the causes of a difference, what they show of the items of a change
// ([Pair]), and whether a live policy decides alike twice.
//
// An [Examiner] hands that to the rehearsal process, which does it behind all decisions, at the
// time that the request had. It never waits, and what does not fit is left out.
package examine
