// Package content is what callers set in policies, experiments and configurations.
//
// Of a resource, only some fields are a caller's: its content. An etag and the ID of a
// revision are hashes of it, an update changes it as a mask says, and a promotion or a
// rollback copies it from one policy to another. All else, such as names and times, is
// the server's.
//
// The checks here are those that need nothing but the content itself: how many, how long,
// how deep, and whether every client can read it back. What is left is whether it
// compiles, which [understudy/admin] finds out. Nothing here does I/O or keeps state; all
// of it is safe for concurrent use.
package content
