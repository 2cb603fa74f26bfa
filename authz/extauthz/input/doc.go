// Package input makes, of the bytes of an ext_authz CheckRequest, what a policy reads of it.
//
// The input document is a table (table.go): one line for each field of Envoy's messages, and
// one for each value that is derived from them. A [Check] is a request taken apart by that
// table. It is filled in two ways: the lazy decoder takes the fields from the wire, without
// decoding what nobody may read; whatever is not usual falls back to the full decode, by
// the protocol buffers library. From a Check come the facts for choosing a policy and for
// records, and the projection of the input document to what a policy reads, with a key by
// which its decision is cached.
//
// The document has the form that policies for opa-envoy-plugin expect, so that they run
// unchanged. It is not canonical protojson: names are in lowerCamelCase and only populated
// fields are there, but times are seconds and nanos, 64-bit integers are numbers, enums are
// numbers, bytes are base64, a Struct is plain JSON and an Any is its typeUrl and its value.
//
// A new field of Envoy's is a line of the table. Tests hold the table against Envoy's
// descriptors, and both ways of filling against a reading of the specification that shares
// no code with them (package checktest).
package input
