package browser

import (
	"crypto/sha256"
	"net/http"
	"sync"
)

// sessions are those with answers that last, so that a logout can end these. Nothing else of
// a session is kept in the server. It is safe for concurrent use.
type sessions struct {
	mu sync.Mutex
	of map[[sha256.Size]byte]*openSession // :: digest of the token → who waits for its end
}

// openSession is a session with answers that last.
type openSession struct {
	// ended is closed by a logout.
	ended chan struct{}
	// answers is how many there are.
	answers int
}

// watch returns what is closed when a session ends here, and how to give that back.
func (s *sessions) watch(key [sha256.Size]byte) (ended <-chan struct{}, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.of[key]
	if w == nil {
		w = &openSession{ended: make(chan struct{})}
		s.of[key] = w
	}
	w.answers++
	return w.ended, sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if w.answers--; w.answers == 0 && s.of[key] == w {
			delete(s.of, key)
		}
	})
}

// end ends what waits for the end of a session.
func (s *sessions) end(key [sha256.Size]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.of[key]; w != nil {
		close(w.ended)
		delete(s.of, key)
	}
}

// sessionOf is the session of a request by its digest, if the request has one.
func (l *Login) sessionOf(r *http.Request) (key [sha256.Size]byte, found bool) {
	cookies := r.CookiesNamed(l.sessionName(r))
	if len(cookies) != 1 || len(r.Header.Values("Authorization")) > 0 {
		return key, false
	}
	return sha256.Sum256([]byte(cookies[0].Value)), true
}

// Watch returns a channel that is closed when the session of a request is logged out on this
// server, for an answer that lasts; nil if the request has no session. leave is called when
// the answer is over. A token that several browsers have is one session.
func (l *Login) Watch(r *http.Request) (ended <-chan struct{}, leave func()) {
	key, found := l.sessionOf(r)
	if !found {
		return nil, func() {}
	}
	return l.sessions.watch(key)
}
