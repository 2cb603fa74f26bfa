// Package signature verifies requests that are signed as Chef's clients sign them: a
// Claim is what the headers of a request say of its sender, and a Key believes it or not.
//
// A signature covers the method, the path, the hash of the body, the time and the name of
// the sender. It covers neither the query nor other headers, so TLS is needed beyond a
// trusted network, and a request that somebody has recorded can be sent again as it was
// for [MaxSkew] after it was signed. The rules are those of mixlib-authentication, which
// signs, and of chef_authn, by which Chef's server verifies, for the versions 1.0 and 1.1
// (SHA-1) and 1.3 (SHA-256).
//
// The package knows no HTTP server. It holds no state but the Keyring, which is safe for
// concurrent use.
package signature
