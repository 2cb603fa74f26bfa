package reservation

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"time"

	"golang.org/x/net/http/httpguts"
)

// tokenHeader has the token of the caller, as Blazar sends it.
const tokenHeader = "X-Auth-Token"

// tokens are the digests of those that admit a caller. Digests have one length, so that
// their comparison shows nothing of the length of a token.
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

// admit reports whether a request has one token and that is a right one. It compares
// with every token, in constant time, so that the time taken says neither how much of a
// token was right nor which one.
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

// warnEvery is the least time between two warnings of calls without a right token:
// anyone who reaches the port can make as many of them as he likes.
const warnEvery = time.Minute

// warnUnauthorized logs that a call had no right token, but not the token. Blazar itself
// says no more than "External service enforcement filter denied the request." then, of
// every lease.
func (h *Handler) warnUnauthorized(r *http.Request) {
	calls := h.unauthorized.Note(h.config.Now(), warnEvery)
	if calls == 0 {
		return
	}
	h.config.Logger.Warn("a call without a right token in X-Auth-Token got 401, which denies the lease; "+
		"Blazar's external_service_token has to be the content of a file of --reservation-token-file",
		"given", len(r.Header.Values(tokenHeader)) > 0, "client", r.RemoteAddr, "calls", calls)
}
