// Package oidc verifies ID tokens of one OpenID Connect issuer.
//
// An issuer's configuration and keys are read by its discovery document, and again every few
// minutes, and when a token names a key that is not known; while the issuer is away, what it
// said last stays. A server starts without its issuer. Until it is there once, nobody can be
// known by its tokens (ErrUnavailable).
package oidc
