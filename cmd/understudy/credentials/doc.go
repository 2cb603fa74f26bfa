// Package credentials has the token with which a command asks a server: where it is from,
// over what it may be sent, and how `login` gets one and keeps it.
//
// A token is that of --token-file, else that of UNDERSTUDY_TOKEN, else that of the file
// which UNDERSTUDY_TOKEN_FILE names, else that of a login to this very server. It is sent
// over TLS, or to this machine; beyond that only with --insecure-token.
//
// A login is the device authorization flow of OAuth 2.0 (RFC 8628) at an OpenID Connect
// issuer: the command shows a code, and a browser anywhere confirms it. What the issuer
// gives is kept in a file of the user for each server, and refreshed when it has expired.
//
// Nothing of a token stands in an error or in an output but that of `understudy token`.
package credentials
