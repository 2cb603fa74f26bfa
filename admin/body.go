package admin

import (
	"io"
	"net/http"
	"time"
)

// bodyTime is how long a caller may take to send a body.
const bodyTime = 30 * time.Second

// ReadBody reads the body of a request, of at most so many bytes; more is an
// *http.MaxBytesError. A body that does not come is an error after 30 seconds: the
// connection has no such bound, since a caller may wait long for an operation.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int) ([]byte, error) {
	connection := http.NewResponseController(w)
	// A writer that knows no deadlines belongs to no slow connection.
	_ = connection.SetReadDeadline(time.Now().Add(bodyTime))
	defer func() { _ = connection.SetReadDeadline(time.Time{}) }()
	return io.ReadAll(http.MaxBytesReader(w, r.Body, int64(limit))) //nolint:wrapcheck // as it is
}
