package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"

	"understudy/admin/apierror"
	"understudy/authz/background"
)

// ReadBody reads the body of a request, of at most so many bytes; more is an
// *http.MaxBytesError. How long it may take is for the server to bound, with the read
// deadline of the connection: what comes after it is an os.ErrDeadlineExceeded.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int) ([]byte, error) {
	return io.ReadAll(http.MaxBytesReader(w, r.Body, int64(limit)))
}

// IsJSON reports whether the headers of a request say that its body is JSON, in UTF-8
// (RFC 8259, section 8.1) and without a content coding, or say nothing of it. Other
// types are refused because a browser sends some of them to any site without asking it.
func IsJSON(h http.Header) bool {
	for _, coding := range h.Values("Content-Encoding") {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return false
		}
	}
	contentType := h.Get("Content-Type")
	if contentType == "" {
		return true
	}
	media, parameters, err := mime.ParseMediaType(contentType)
	if err != nil || media != "application/json" && !strings.HasSuffix(media, "+json") {
		return false
	}
	charset, given := parameters["charset"]
	return !given || strings.EqualFold(charset, "utf-8") || strings.EqualFold(charset, "us-ascii")
}

// checkBody reads a request's body before anything else looks at it, so that a
// large, broken or misplaced one is refused as what it is.
func (a *API) checkBody(next http.Handler) func(http.ResponseWriter, *http.Request, route) {
	return func(w http.ResponseWriter, r *http.Request, route route) {
		body, err := ReadBody(w, r, a.maxBody)
		var tooLarge *http.MaxBytesError
		switch {
		case errors.As(err, &tooLarge):
			writeStatus(w, http.StatusRequestEntityTooLarge, bodyTooLarge(a.maxBody))
		case errors.Is(err, os.ErrDeadlineExceeded):
			writeStatus(w, http.StatusRequestTimeout, bodyTooSlow())
		case err != nil:
			writeStatus(w, http.StatusBadRequest, invalidJSON("The body could not be read to its end."))
		case len(body) == 0 && route.body != "":
			writeStatus(w, http.StatusBadRequest, apierror.Required(apierror.Field(route.body), "It is the body of the call. It may be empty: {}."))
		case len(body) == 0:
			r.Body = http.NoBody
			next.ServeHTTP(w, r)
		case r.Method == http.MethodGet || r.Method == http.MethodDelete:
			writeStatus(w, http.StatusBadRequest, unexpectedBody(r.Method))
		case !IsJSON(r.Header):
			// RFC 9110, section 15.5.16.
			w.Header().Set("Accept-Encoding", "identity")
			writeStatus(w, http.StatusUnsupportedMediaType, unsupportedMediaType())
		case !json.Valid(body):
			writeStatus(w, http.StatusBadRequest, syntaxError(body))
		default:
			r.Body = io.NopCloser(bytes.NewReader(body))
			var err error
			background.Run(len(body), func() { err = checkNumbers(route.body, body) })
			if err != nil {
				writeStatus(w, http.StatusBadRequest, err)
				return
			}
			next.ServeHTTP(w, r)
		}
	}
}
