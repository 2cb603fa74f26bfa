// Package authz is the data plane: it decides a request by the live policy and
// rehearses the policy's experiments on the same request.
//
// A [Sidecar] follows the policies of one location through a [Feed] and holds
// them, compiled, in one immutable snapshot. A [Request] is decided by the live
// policy of that snapshot; after the answer it is decided again by each ACTIVE
// experiment, in shadow: by the same code, with the same input and clock, without
// effects. Each pair of decisions becomes one preview record (AIP-236).
//
// The package guarantees that a request is decided within one snapshot, that no
// experiment can change or delay a live answer, and that whatever goes wrong is a
// denial. How a request arrives and how an answer leaves is left to the fronts
// ([understudy/authz/extauthz]), how policies are stored to the Feed.
package authz
