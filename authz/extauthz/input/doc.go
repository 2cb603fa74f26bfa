// Package input makes, of the bytes of an ext_authz CheckRequest, what a policy reads of it.
//
// A [Check] is a request taken apart by Envoy's descriptors (document.go), without decoding
// what nobody may read: that is the lazy decoder. Whatever is not usual falls back to the full
// decode, in which the protocol buffers library decodes the request and encodes it again; the
// usual form is then taken apart by the same code. From a Check come the facts for choosing a
// policy and for records, what stands at the paths that an evaluation asks for (parts.go), and the
// whole input document.
//
// Anyone who has the bytes makes the same of them: the rehearsal process reads a request of those that
// are sent to it (sent.go).
//
// The document has the form that policies for opa-envoy-plugin expect, so that they run
// unchanged. It is not canonical protojson: names are in lowerCamelCase and only populated
// fields are there, but times are seconds and nanos, 64-bit integers are numbers, enums are
// numbers, bytes are base64, a Struct is plain JSON and an Any is its typeUrl and its value.
//
// A new field of Envoy's is in the document as soon as its descriptor has it. Tests hold the
// lazy decoder against the full decode, and both against a reading of the specification that
// shares no code with them (package checktest).
package input
