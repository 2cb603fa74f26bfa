// Package revocation reads a file of the principals that a server refuses, whatever they are
// bound to and however good their credentials are.
//
// The file has a member of bindings in each line, a group too; empty lines and lines that begin
// with # are comments. It is read again and again, and fails closed: who is added is refused with
// the next reading, also by a file of which other lines cannot be read. Who is taken off is let in
// again when two readings in a row have found the same good file, for what writes a file may
// leave a moment with half of it. A file that is gone lets nobody in.
package revocation
