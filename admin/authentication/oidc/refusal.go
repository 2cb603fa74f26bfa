package oidc

import "strings"

// Refusal says why a token is refused.
type Refusal struct {
	// Outcome is how it is counted.
	Outcome string
	// Text is a sentence for the caller. It quotes nothing of the token.
	Text string
}

// Error is the text.
func (r *Refusal) Error() string { return r.Text }

// The refusals that need no detail.
var (
	malformed     = &Refusal{"malformed", "The bearer token is no signed token (JWT), or of an algorithm that is not taken: it has to have a public key, as RS256 and ES256 do."}
	oversized     = &Refusal{"malformed", "The bearer token is larger than 16384 bytes."}
	otherIssuer   = &Refusal{"issuer", "The token is of another issuer."}
	unknownKey    = &Refusal{"signature", "The issuer has no key by which the token is signed."}
	badSignature  = &Refusal{"signature", "The signature of the token is not that of the key that it names."}
	badClaims     = &Refusal{"malformed", "The claims of the token cannot be read, or it is not good yet."}
	ambiguous     = &Refusal{"malformed", "The claims of the token are not one JSON object in UTF-8 in which each name stands once (RFC 7519, section 4)."}
	expired       = &Refusal{"expired", "The token has expired: get a new one."}
	endless       = &Refusal{"expired", "The token has no end (exp), which it needs: have the issuer set one."}
	early         = &Refusal{"expired", "The token is not good yet (nbf)."}
	securityEvent = &Refusal{"malformed", "The token reports an event, such as a logout; it is nobody's credentials."}
	otherLogin    = &Refusal{"malformed", "The token is of another login (nonce)."}
	badSubject    = &Refusal{"malformed", "The claim sub of the token is missing, longer than 255 bytes, or not printable."}
)

// badGroups says what the claim of the groups has to be.
func badGroups(claim string) *Refusal {
	return &Refusal{"malformed", "The claim '" + claim + "' of the token is neither a text nor a list of texts."}
}

// lookalike says which claim another one could be taken for.
func lookalike(name string) *Refusal {
	return &Refusal{"malformed", "The token has a claim whose name is '" + name + "' but for the case of its letters, which counts: have the issuer leave it out."}
}

// otherAudience says for whom a token has to be.
func (i *Issuer) otherAudience() *Refusal {
	return &Refusal{"audience", "The token is for another audience; it has to be for " + strings.Join(i.config.Audiences, " or ") + "."}
}
