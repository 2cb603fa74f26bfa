// Package authentication finds who sends a request to the admin port, by one of several ways
// at once.
//
// The credentials of a request are its header Authorization or, if there is none, the client
// certificate of its connection. A bearer token is one of a token file or one of several
// OpenID Connect issuers, and what is known of its bearer belongs to that issuer. Credentials of one kind never make up for bad ones of another kind: a
// request with a bad header is refused, whatever its certificate says.
//
// Cookies are no credentials here. A page in a browser has a session (admin/authentication/browser),
// which counts below /ui/ alone.
//
// Chef's signed headers are the concern of admin/policyfile. Nothing of a credential is
// logged, counted or quoted in an error.
package authentication
