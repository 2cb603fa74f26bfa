// Package coverage says how much of the change between two policies traffic has exercised.
//
// [Diff] compares the sources of the live policy and of a candidate: the rules of one side
// that the other does not have, whatever file or line they stand in and however they are
// formatted, and the data. Each such rule is a [Target]. A [Tracer] watches an evaluation of
// one side and says of each target whether its body was true, and whether it was asked and
// not true; what neither happened to was not exercised, and evidence says nothing of it.
package coverage
