// Package process starts the rehearsal process and measures it from outside.
//
// It is the same binary, started from itself with one argument, so that it works with a
// read-only root and needs no privileges. It inherits nothing but one end of a stream and
// the few variables of the environment that time and place depend on; no privileges, not even
// those of root. On Linux it cannot read the memory of who has started it.
package process
