package authentication

import "strings"

// maxToken bounds a bearer token, in bytes. An ID token with many groups has a few
// thousand; gRPC and most servers take headers of 8 KiB or 16 KiB at most.
const maxToken = 16 << 10

// refusal says why credentials are none, and how that is counted.
type refusal struct {
	outcome outcome
	// text is a sentence for the caller. It quotes nothing of the credentials.
	text string
}

// Error is the text.
func (r refusal) Error() string { return r.text }

// The refusals that need no detail.
var (
	missing        = refusal{outcomeMissing, "The request has no credentials."}
	expiredToken   = refusal{outcomeExpired, "The token has expired: the operator of the server makes another one with `understudy token`."}
	revoked        = refusal{outcomeRevoked, "The owner of these credentials is revoked on this server: its operator knows why."}
	unknownToken   = refusal{outcomeUnknown, "The bearer token is not known here; a new line of a token file is read within seconds."}
	repeatedHeader = refusal{outcomeMalformed, "The header Authorization is there more than once."}
	otherScheme    = refusal{outcomeMalformed, "The header Authorization is not 'Bearer' and a token."}
	malformedToken = refusal{outcomeMalformed, "The bearer token has characters that no token has (RFC 6750), or none at all."}
	oversizedToken = refusal{outcomeMalformed, "The bearer token is larger than 16384 bytes."}
)

// bearer returns the token of the header Authorization (RFC 6750, section 2.1). Two headers
// are refused, for a proxy may have looked at the other one.
func bearer(headers []string) (string, error) {
	if len(headers) != 1 {
		return "", repeatedHeader
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", otherScheme
	}
	token = strings.TrimSpace(token)
	switch {
	case len(token) > maxToken:
		return "", oversizedToken
	case token == "" || strings.ContainsFunc(token, outsideToken):
		return "", malformedToken
	}
	return token, nil
}

// outsideToken reports whether a character is none of b64token (RFC 6750, section 2.1).
func outsideToken(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("-._~+/=", r)
}
