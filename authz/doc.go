// Package authz is what a decision is: requests, policies and their answers.
//
// A [Policy] is a chain of filters, compiled from what the control plane stores. It
// decides a [Request] under [Conditions]: each filter in order, the first denial ends the
// chain, and the outcome is a [Decision], complete enough to be compared with another one.
// An evaluation asks the request for what it needs, part by part, and what it learned is the
// record by which decisions are known: the [Leaf] of a decision names the requests that are decided alike,
// for the same reasons. A [Feed] is the seam to the control plane: the state
// of the policies of a [Location], and the changes.
//
// Nothing here starts a goroutine, opens a file or a connection; whatever goes wrong is a
// denial. Around it: package cache is a decorator in front of a policy, sidecar follows a
// Feed and answers, rehearsal decides by experiments, decisionlog logs. How a request
// arrives and how an answer leaves is left to the fronts, extauthz and reservation.
package authz
