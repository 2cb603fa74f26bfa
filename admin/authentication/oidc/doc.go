// Package oidc verifies ID tokens of OpenID Connect issuers, and lets browsers log in there.
//
// Issuers are independent of each other: a token is verified by the one that it names, with its
// audiences, and what it says of a principal, the groups too, belongs to that issuer.
//
// An issuer's configuration and keys are read by its discovery document, and again every few
// minutes, and when a token names a key that is not known; while the issuer is away, what it
// said last stays. A server starts without its issuer. Until it is there once, nobody can be
// known by its tokens (Unavailable).
package oidc
