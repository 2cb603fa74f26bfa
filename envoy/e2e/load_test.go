//go:build realenvoy

package e2e_test

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"sync"
	"testing"
	"time"

	"understudy/cmd/testkit"
)

// load asks for paths that the policy allows and, every fourth, for one that it denies,
// until it is stopped. It counts what was answered.
type load struct {
	done chan struct{}
	work sync.WaitGroup

	mu      sync.Mutex
	answers map[answerKind]int
	total   int
	more    chan struct{} // closed and made anew with each answer
}

// answerKind is what was asked for, and the status of the answer; 0 is none.
type answerKind struct {
	allowed bool
	status  int
}

// The load: so many connections, each with so much time between two requests. It keeps
// no processor busy.
const (
	connectionsOfLoad = 8
	requestInterval   = 20 * time.Millisecond
)

func newLoad(t *testing.T, address string) *load {
	l := &load{done: make(chan struct{}), answers: make(map[answerKind]int), more: make(chan struct{})}
	for n := range connectionsOfLoad {
		l.work.Go(func() { l.ask(address, n) })
	}
	t.Cleanup(func() { l.stop() })
	return l
}

// ask is one connection.
func (l *load) ask(address string, n int) {
	transport := &http.Transport{}
	client := &http.Client{Transport: transport, Timeout: testkit.Patience}
	defer transport.CloseIdleConnections()
	ticker := time.NewTicker(requestInterval)
	defer ticker.Stop()
	for i := n; ; i++ {
		select {
		case <-l.done:
			return
		case <-ticker.C:
		}
		kind, path := answerKind{allowed: i%4 != 0}, "public"
		if !kind.allowed {
			path = "private"
		}
		// Each path is another, so that no decision is one that is known.
		response, err := client.Get(fmt.Sprintf("http://%s/%s/%d/%d", address, path, n, i))
		if err == nil {
			kind.status = response.StatusCode
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
		l.count(kind)
	}
}

func (l *load) count(kind answerKind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers[kind]++
	l.total++
	close(l.more)
	l.more = make(chan struct{})
}

// stop ends the load; all that was asked is answered then.
func (l *load) stop() {
	l.mu.Lock()
	select {
	case <-l.done:
	default:
		close(l.done)
	}
	l.mu.Unlock()
	l.work.Wait()
}

// until waits until something is so, with requests next to it. It looks after every few
// answers.
func (l *load) until(t *testing.T, what string, is func() bool) {
	t.Helper()
	late := time.Now().Add(testkit.Patience)
	for !is() {
		if time.Now().After(late) {
			t.Fatalf("waited %s for: %s", testkit.Patience, what)
		}
		l.answered(t, 10)
	}
}

// answered waits for so many more answers.
func (l *load) answered(t *testing.T, n int) {
	t.Helper()
	late := time.After(testkit.Patience)
	for goal := math.MaxInt; ; {
		l.mu.Lock()
		goal = min(goal, l.total+n)
		total, more := l.total, l.more
		l.mu.Unlock()
		if total >= goal {
			return
		}
		select {
		case <-more:
		case <-late:
			t.Fatalf("waited %s for answers to the requests", testkit.Patience)
		}
	}
}

// outcome is the load by what it means.
type outcome struct {
	// right were answered as the policy says.
	right int
	// allowed passed although the policy denies it, denied did not although it allows it.
	allowed, denied int
	// unanswered got the status of "no decision possible".
	unanswered int
	// other is any other answer, and none.
	other int
}

// outcome stops the load and says what came of it.
func (l *load) outcome() (o outcome) {
	l.stop()
	for kind, n := range l.answers {
		switch {
		case kind.allowed && kind.status == 200 || !kind.allowed && kind.status == 403:
			o.right += n
		case kind.status == 200:
			o.allowed += n
		case kind.status == 403:
			o.denied += n
		case kind.status == 503:
			o.unanswered += n
		default:
			o.other += n
		}
	}
	return o
}

// Requests without an answer, in percent. Envoy waits so much longer here than as shipped
// (unhurried) that a busy machine loses none. A few are no failure: what is to be shown
// loses a fifth of them and more if it is broken.
const (
	hardlyAny = 1
	few       = 5
	// anyNumber is for a sidecar that has no other next to it.
	anyNumber = 100
)

// check fails the test if a request was answered otherwise than the policy says, or if
// more than some percent had no answer.
func (o outcome) check(t *testing.T, unanswered int) {
	t.Helper()
	t.Logf("%+v", o)
	if o.allowed != 0 || o.denied != 0 || o.other != 0 {
		t.Errorf("wrongly allowed %d, wrongly denied %d, other answers %d; want none", o.allowed, o.denied, o.other)
	}
	if all := o.right + o.unanswered; o.unanswered*100 > all*unanswered {
		t.Errorf("%d of %d requests were not answered; at most %d %% may be", o.unanswered, all, unanswered)
	}
	if o.right == 0 {
		t.Error("no request was answered as the policy says")
	}
}
