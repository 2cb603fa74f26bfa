// Package extauthz is Envoy's external authorization service (ext_authz v3, gRPC)
// in front of the policy decision point.
//
// A check goes three steps: package input makes an [authz.Request] of the bytes of the
// CheckRequest, without decoding what no policy reads; the [Decider] decides it; and the
// [Server] makes a CheckResponse of the [authz.Decision]. The response of a decision that
// comes from the decision cache is marshalled already, around the places of its decision
// ID. Proxies that ask over HTTP go the same way, by package httpauthz.
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
// under which records name this decision. If the policy could not decide, it
// also has failure, the class of what went wrong (such as UNDEFINED), and reason,
// a sentence for people.
//
// # Where it differs from opa-envoy-plugin
//
// The table in envoy/opa-envoy-plugin.md has all differences with their reasons; each is shown
// by a file of testdata. The ones that are made here and matter most:
//
//   - A policy that could not decide is a denial with 403, not a gRPC error; see
//     [OnFailureError]. A request that does not parse is one with 400.
//   - Headers of an allow, and of a denial, replace what stands under their name;
//     further values are appended. Without an append action newer Envoys would
//     append a policy's x-user to one that the client forged.
//   - Query parameters that a policy sets are escaped where they could not stand in
//     a query or would end a parameter; an escape that is there already stays.
//   - A decision that Envoy could not be sent or could not read is a denial.
package extauthz
