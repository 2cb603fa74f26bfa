package admin_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"understudy/admin"
)

// timed is a writer that keeps the deadlines of its connection.
type timed struct {
	*httptest.ResponseRecorder
	deadlines []time.Time
}

func (t *timed) SetReadDeadline(at time.Time) error {
	t.deadlines = append(t.deadlines, at)
	return nil
}

// TestABodyHasATime of its own: whoever waits for an operation later is not cut off.
func TestABodyHasATime(t *testing.T) {
	w := &timed{ResponseRecorder: httptest.NewRecorder()}
	body, err := admin.ReadBody(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader("text")), 4)
	if err != nil || string(body) != "text" {
		t.Errorf("got %q, %v", body, err)
	}
	if len(w.deadlines) != 2 || w.deadlines[0].Before(time.Now()) || !w.deadlines[1].IsZero() {
		t.Errorf("the deadlines are %v", w.deadlines)
	}
	_, err = admin.ReadBody(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader("texts")), 4)
	if tooLarge := (*http.MaxBytesError)(nil); !errors.As(err, &tooLarge) {
		t.Errorf("a body that is too large: %v", err)
	}
}
