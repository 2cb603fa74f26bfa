// Package extauthz is Envoy's external authorization service (ext_authz v3, gRPC)
// in front of the policy decision point.
//
// [Server] turns a CheckRequest into an [authz.Request], asks its [Decider] and
// turns the [authz.Decision] into a CheckResponse. The request carries the facts
// for choosing a policy and for records; the input document is made when a policy
// first asks for it, in the shape that policies for opa-envoy-plugin expect, so
// that they run unchanged. That shape is not canonical protojson: names are in
// lowerCamelCase and only populated fields are there, but times are seconds and
// nanos, 64-bit integers are numbers, enums are numbers, bytes are base64, a
// Struct is plain JSON and an Any is its typeUrl and its value.
//
// The package guarantees that a check is answered by a decision, never by a gRPC
// error, because Envoy's failure_mode_allow makes an allow of an error; that
// nothing leaves that Envoy could not send (names and values of headers, text that
// is not UTF-8); and that no part of a request is in a message or in the dynamic
// metadata unless the policy put it there. What a policy may answer, and what a
// wrong answer means, is left to package authz.
//
// # Dynamic metadata
//
// Each response has dynamic metadata: that of the policy, and decision_id, the ID
// under which records tell of this decision. If the policy could not decide, it
// also has failure, the class of what went wrong (such as UNDEFINED), and reason,
// a sentence for people.
package extauthz
