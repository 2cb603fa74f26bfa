// Package sandbox takes from a process what it needs no more: on Linux most system calls.
//
// It is for the rehearsal process, which evaluates what others have written. Should a fault of
// the interpreter let a policy run code of its own there, that code can compute, use the memory
// that the process has, and talk to the parent over the stream; it can open no file, make no
// connection and no process, and reach no other process. The list of calls is what Go's runtime
// needs, also with cgo and the race detector, and nothing else.
package sandbox
