package reservation

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"understudy/authz"
	"understudy/authz/diagnostics"
)

// response is what a caller gets.
type response struct {
	status int
	// message is for the user of Blazar with 403, else for who runs it. It is empty with
	// 204 alone.
	message string
	// unread says that the body was not read, or not to its end.
	unread bool
}

// allowed is the only yes that Blazar knows.
var allowed = response{status: http.StatusNoContent}

func refuse(status int, message string) response { return response{status: status, message: message} }

// The responses to requests that are not looked at further.
var (
	errToken     = response{http.StatusUnauthorized, "The header X-Auth-Token has no token that is known here.", true}
	errPath      = response{http.StatusNotFound, "The path ends in check-create, check-update or on-end.", true}
	errMethod    = response{http.StatusMethodNotAllowed, "The method has to be POST.", true}
	errMediaType = response{http.StatusUnsupportedMediaType, "The body has to be application/json in UTF-8, not encoded further.", true}
	errBusy      = response{http.StatusTooManyRequests, "Too many calls are under way. Call again.", true}
	errTooLarge  = response{http.StatusRequestEntityTooLarge, "The body is too large.", true}
	errBroken    = response{http.StatusBadRequest, "The body ends before its length, or did not come in time.", false}
)

// headers :: status → the header that belongs to it.
var headers = map[int][2]string{
	http.StatusUnauthorized:     {"WWW-Authenticate", tokenHeader + ` realm="reservations"`},
	http.StatusMethodNotAllowed: {"Allow", http.MethodPost},
	http.StatusTooManyRequests:  {"Retry-After", "1"},
}

func (a response) write(w http.ResponseWriter) {
	if header, ok := headers[a.status]; ok {
		w.Header().Set(header[0], header[1])
	}
	if a.status == http.StatusNoContent {
		w.WriteHeader(a.status)
		return
	}
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(map[string]string{"message": a.message}); err != nil {
		body.Reset() // a string and a map of it always encode
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	_, _ = w.Write(body.Bytes()) // anyone who does not take it has gone
}

// isJSON reports whether the body is said to be JSON as it is read here. One that says
// nothing is not: what a browser can send to another site without asking must not pass.
func isJSON(header http.Header) bool {
	mediaType, parameters, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil || mediaType != "application/json" || header.Get("Content-Encoding") != "" {
		return false
	}
	charset, given := parameters["charset"]
	return !given || strings.EqualFold(charset, "utf-8")
}

// read returns the body, or the response if it cannot be had. The declared length is
// looked at first, so that a body which says that it is too large is not read at all.
func (h *Handler) read(r *http.Request) ([]byte, *response) {
	if r.ContentLength > h.config.MaxBody {
		return nil, &errTooLarge
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, h.config.MaxBody+1))
	if int64(len(body)) > h.config.MaxBody {
		return nil, &errTooLarge
	}
	if err != nil {
		return nil, &errBroken
	}
	return body, nil
}

// drainBodies is how many of the largest bodies are read so that the caller gets the response.
const drainBodies = 4

// drain reads what a caller still sends, up to a bound, because it would miss an answer
// that comes before. One that waits for "100 Continue" sends nothing.
func (h *Handler) drain(r *http.Request) {
	if r.Header.Get("Expect") == "" {
		_, _ = io.CopyN(io.Discard, r.Body, drainBodies*h.config.MaxBody)
	}
}

// maxMessage bounds a message, in bytes: it is one sentence or a few.
const maxMessage = 1024

// The messages of denials that do not say why.
const (
	genericDenial  = "The policy does not allow this reservation."
	genericFailure = "The policy could not decide about this reservation, so it is not allowed. Ask who runs this cloud."
)

// messageOf returns what the user of Blazar reads of a denial: the policy's reason,
// and of a failure no more than that it was one, but for what is wrong with the request.
func messageOf(d authz.Decision) string {
	if d.Failure != "" && !d.Failure.OfRequest() {
		return genericFailure
	}
	if text := clean(d.Reason); text != "" {
		return text
	}
	return genericDenial
}

// clean makes a text fit to be shown: bounded, valid, on one line, without what moves a
// cursor, hides or turns the reading direction.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError || unicode.In(r, unicode.Cf):
			return -1
		case unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp):
			return ' '
		}
		return r
	}, text)
	text = strings.TrimSpace(text)
	if len(text) <= maxMessage {
		return text
	}
	return diagnostics.Cut(text, maxMessage-len("…"))
}
