// Package child is the rehearsal process: it compiles and evaluates what is not live, for
// the process that started it.
//
// It has no configuration, no port and no disk: all that it knows comes over one stream,
// and it ends when that ends. Each compiled policy has a lane, with one goroutine that does
// what is asked of it in order; so an evaluation that takes long delays no other lane, and
// the parent knows what each lane was doing when the process died. A lane caches decisions, within a part of the
// memory of the process that all lanes share.
//
// Before it reads the first policy it is confined (package sandbox), and says so if that fails.
//
// It watches itself: it ends, saying why, when it uses more memory than it may, when an
// evaluation goes on although it was cancelled, and when a compilation takes too long. None
// of these can be ended in any other way in a process of Go.
package child
