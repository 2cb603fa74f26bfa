// Package browser gives a page in a browser a session.
//
// The session is a cookie that holds a bearer token, which is verified on each request as
// that of an Authorization header is: it is good on every server, and ends with the token. It
// counts below /ui/ alone, never for the API, so that no page can use the API by it. A token
// is pasted, or comes from an issuer by the authorization code flow with PKCE. Each issuer leads
// back to an address of its own, and what a login remembers names that address: a code of one
// issuer never goes to another one (RFC 9700, section 4.4).
//
// The cookie is SameSite=Strict, and a browser does not send it where a page of another site
// leads, the issuer's included. So what a login has to remember is in a cookie of its own,
// SameSite=Lax and for ten minutes, and the way back ends on a page of this site, which leads
// on. That cookie is neither signed nor encrypted: it holds random values that the browser
// may know, and the path to go back to, which is checked when it is read. So any server can
// end a login that another one began.
package browser
