package telemetry

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"understudy/cmd/testkit"
)

// TestOneAnswerAtATime: one is made while others wait, anyone who is ended while waiting gets none,
// and an answer that nobody reads holds up no other one.
func TestOneAnswerAtATime(t *testing.T) {
	made, making := make(chan struct{}), make(chan struct{}, 10)
	page := oneAtATime(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		making <- struct{}{}
		<-made
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write([]byte("page"))
	}))
	unread := unreadAnswer{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
	var all sync.WaitGroup
	all.Go(func() { page.ServeHTTP(unread, httptest.NewRequest("GET", "/metrics", nil)) })
	testkit.Closed(t, "the first page to be made", making)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ended := httptest.NewRecorder()
	page.ServeHTTP(ended, httptest.NewRequest("GET", "/metrics", nil).WithContext(ctx))
	if len(making) != 0 || ended.Body.Len() != 0 {
		t.Errorf("a request that is ended gets %q", ended.Body)
	}
	made <- struct{}{}
	testkit.Closed(t, "the page to be written", unread.begun)
	answer := httptest.NewRecorder()
	all.Go(func() { page.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil)) })
	testkit.Closed(t, "the next page to be made", making)
	made <- struct{}{}
	close(unread.read)
	all.Wait()
	if answer.Code != http.StatusTeapot || answer.Body.String() != "page" || answer.Header().Get("Content-Type") != "text/plain" {
		t.Errorf("the answer is %d %s %v", answer.Code, answer.Body, answer.Header())
	}
}

// unreadAnswer is an answer that is not read for a while.
type unreadAnswer struct {
	*httptest.ResponseRecorder
	begun, read chan struct{}
}

// Write implements http.ResponseWriter.
func (a unreadAnswer) Write(p []byte) (int, error) {
	close(a.begun)
	<-a.read
	return a.ResponseRecorder.Write(p)
}
