// Package wire is what the rehearsal process and its parent say to each other.
//
// Each side sends frames: a length, a kind and a payload. The payloads of frames that are sent for
// each request are the messages of v1; those of rare ones are JSON. Both ends are the same binary,
// so that nothing here has versions; [Hello] makes sure of it.
//
// A request crosses as the bytes that Envoy sent, and is read on the other side; one of another
// front crosses as its input document. Either follows the message, so that no large message is
// copied more than once.
//
// A decision has the leaf of its request at the end, so that equal decisions are equal bytes before it.
//
// A frame belongs to a lane, which is one compiled policy in the child. What is sent in a
// lane is done and answered in order, one after the other; lanes do not wait for each other.
package wire
