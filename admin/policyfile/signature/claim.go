package signature

import (
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// MaxSkew is how far the clock of a sender may be from ours, either way: that of Chef's
// server.
const MaxSkew = 15 * time.Minute

// Bounds of headers. The longest signature is that of a key of MaxKeyBits, in lines of 60
// characters.
const (
	maxHeader = 512
	maxLines  = (MaxKeyBits/8+2)/3*4/60 + 1
)

// timeLayout is that of X-Ops-Timestamp. The text is signed as it was sent, so it has one
// form only.
const timeLayout = "2006-01-02T15:04:05Z"

// userGrammar is that of names of users and clients in Chef.
var userGrammar = regexp.MustCompile(`\A[-[:alnum:]_.:@]{1,255}\z`)

// ValidUser reports whether a text can be the name of a sender.
func ValidUser(name string) bool { return userGrammar.MatchString(name) }

// apiVersionGrammar is that of X-Ops-Server-API-Version.
var apiVersionGrammar = regexp.MustCompile(`\A(0|[1-9][0-9]{0,8})\z`)

// Claim is what the headers of a request say of its sender. Nothing of it is believed
// before Key.Signed and Covers have said yes.
type Claim struct {
	// User is the name of the sender.
	User        string
	version     version
	timestamp   string
	contentHash string
	apiVersion  string
	signature   []byte
}

// required are the headers that every signed request has.
var required = []string{"X-Ops-Sign", "X-Ops-UserId", "X-Ops-Timestamp", "X-Ops-Content-Hash", "X-Ops-Authorization-1"}

// Present reports whether a request claims to be signed: it has a header that nothing but
// a signature needs.
func Present(h http.Header) bool {
	for _, name := range required {
		if len(h.Values(name)) > 0 {
			return true
		}
	}
	return false
}

// ErrVersion is the error of a version that is not spoken here.
var ErrVersion = errors.New("Unsupported authentication protocol version : X-Ops-Sign has to say version 1.0 or 1.1 with algorithm sha1, or 1.3 with sha256") //nolint:staticcheck // Chef's text

// Read reads the headers of a request that arrives now. The error is for the sender, in
// the words of Chef's server; it quotes no header but the name.
func Read(h http.Header, now time.Time) (*Claim, error) {
	if err := check(h); err != nil {
		return nil, err
	}
	c := &Claim{
		User: h.Get("X-Ops-UserId"), timestamp: h.Get("X-Ops-Timestamp"), contentHash: h.Get("X-Ops-Content-Hash"),
		apiVersion: h.Get("X-Ops-Server-API-Version"),
	}
	if c.apiVersion == "" {
		c.apiVersion = "0"
	}
	var known bool
	if c.version, known = parseVersion(h.Get("X-Ops-Sign")); !known {
		return nil, ErrVersion
	}
	at, err := time.Parse(timeLayout, c.timestamp)
	var ok bool
	switch {
	case !ValidUser(c.User):
		return nil, badHeader("X-Ops-UserId", "a name has up to 255 letters, digits and characters of _.:@-")
	case err != nil:
		return nil, badHeader("X-Ops-Timestamp", "it is like 2006-01-02T15:04:05Z")
	case now.Sub(at).Abs() >= MaxSkew:
		return nil, &ClockError{c.User}
	case !apiVersionGrammar.MatchString(c.apiVersion):
		return nil, badHeader("X-Ops-Server-API-Version", "it is a number")
	}
	if c.signature, ok = lines(h); !ok {
		return nil, badHeader("X-Ops-Authorization-N", "together they are Base64")
	}
	return c, nil
}

// ClockError says that a signature was made too long ago, or is of a time to come.
type ClockError struct {
	// User is whose signature it is said to be.
	User string
}

// Error is Chef's text.
func (e *ClockError) Error() string {
	return "Failed to authenticate as " + e.User + ". Synchronize the clock on your host."
}

// check refuses headers that are missing, given twice or too long.
func check(h http.Header) error {
	var missing []string
	for _, name := range required {
		switch values := h.Values(name); {
		case len(values) == 0 || len(values) == 1 && values[0] == "":
			missing = append(missing, name)
		case len(values) > 1 || len(values[0]) > maxHeader:
			return badHeader(name, "it is given once, and short")
		}
	}
	if len(h.Values("X-Ops-Server-API-Version")) > 1 {
		return badHeader("X-Ops-Server-API-Version", "it is given once")
	}
	if missing != nil {
		return errors.New("missing required authentication header(s) " + strings.Join(missing, ", "))
	}
	return nil
}

// badHeader is the error of a header that cannot be read.
func badHeader(name, rule string) error { return fmt.Errorf("bad header(s) %s : %s", name, rule) }

// lines joins X-Ops-Authorization-1 and those that follow it.
func lines(h http.Header) ([]byte, bool) {
	var text strings.Builder
	for i := 1; ; i++ {
		values := h.Values("X-Ops-Authorization-" + strconv.Itoa(i))
		if len(values) == 0 {
			break
		}
		if len(values) > 1 || i > maxLines || len(values[0]) > maxHeader {
			return nil, false
		}
		text.WriteString(strings.TrimSpace(values[0]))
	}
	signature, err := base64.StdEncoding.Strict().DecodeString(text.String())
	return signature, err == nil && len(signature) <= MaxKeyBits/8
}

// Covers reports whether a body is the one that was signed. It says something only of a
// claim that a Key believes.
func (c *Claim) Covers(body []byte) bool {
	return subtle.ConstantTimeCompare([]byte(c.version.sum(body)), []byte(c.contentHash)) == 1
}
