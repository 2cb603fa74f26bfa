package reservation

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"

	"golang.org/x/net/http/httpguts"
)

// tokenHeader has the token of the caller, as Blazar sends it.
const tokenHeader = "X-Auth-Token"

// tokens are the digests of those that admit a caller. Digests have one length, so that
// their comparison tells nothing of that of a token.
type tokens struct{ digests [][sha256.Size]byte }

// SetTokens replaces the tokens, any of which admits a caller: for a rotation there are
// two for a while. Without any, every caller is admitted. A token that no header could
// have is refused, and the ones before stay.
func (h *Handler) SetTokens(list []string) error {
	t := &tokens{}
	for _, token := range list {
		if token == "" || !httpguts.ValidHeaderFieldValue(token) {
			return errors.New("reservation: a token is text on one line, and not empty")
		}
		t.digests = append(t.digests, sha256.Sum256([]byte(token)))
	}
	h.tokens.Store(t)
	return nil
}

// admit reports whether a call has one token and that is a right one. It takes as long
// for each that is not.
func (t *tokens) admit(header http.Header) bool {
	if len(t.digests) == 0 {
		return true
	}
	values := header.Values(tokenHeader)
	if len(values) != 1 {
		return false
	}
	digest, found := sha256.Sum256([]byte(values[0])), 0
	for i := range t.digests {
		found |= subtle.ConstantTimeCompare(digest[:], t.digests[i][:])
	}
	return found == 1
}
