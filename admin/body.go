package admin

import (
	"io"
	"mime"
	"net/http"
	"strings"
)

// ReadBody reads the body of a request, of at most so many bytes; more is an
// *http.MaxBytesError. How long it may take is for the server to bound, with the read
// deadline of the connection: what comes after it is an os.ErrDeadlineExceeded.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int) ([]byte, error) {
	return io.ReadAll(http.MaxBytesReader(w, r.Body, int64(limit))) //nolint:wrapcheck // as it is
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
