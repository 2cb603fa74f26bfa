package port

import (
	"errors"
	"io"
	"net/http"
	"os"
)

// unknownBody is a body that is small and comes soon, as long as nobody knows who sends it.
type unknownBody struct {
	io.ReadCloser
	call *unknownCall
	// left is how many bytes it may have yet.
	left int64
}

// Read implements io.Reader.
func (b *unknownBody) Read(p []byte) (int, error) {
	if bounded, err := b.begin(); err != nil {
		return 0, err
	} else if bounded {
		p = p[:min(int64(len(p)), b.left+1)] // one more finds out whether there is more
	}
	n, err := b.ReadCloser.Read(p)
	return b.end(n, err)
}

// begin notes that somebody waits for the body. It reports whether it is bounded.
func (b *unknownBody) begin() (bounded bool, err error) {
	c := b.call
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.known:
		return false, nil
	case b.left < 0:
		return true, &http.MaxBytesError{Limit: unknownSize}
	case c.tooLate && !c.sent:
		return true, os.ErrDeadlineExceeded
	}
	c.reading = true
	return true, nil
}

// end notes what came of that.
func (b *unknownBody) end(n int, err error) (int, error) {
	c := b.call
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading = false
	c.sent = c.sent || errors.Is(err, io.EOF)
	if b.left -= int64(n); b.left < 0 && !c.known {
		return n - 1, &http.MaxBytesError{Limit: unknownSize}
	}
	return n, err
}
