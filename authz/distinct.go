package authz

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
)

// maxShared is the size of the largest decision that is kept once for all requests and
// has a rendering, in bytes. Whatever else is made of decisions hangs on renderings, so
// that none of it holds large ones.
const maxShared = 4 << 10

// maxDistinct is how many decisions are kept apart. Policies whose decisions differ
// more than that, such as by a header for each user, share none of the rest.
const maxDistinct = 4096

// distinct holds one of all decisions that are equal: a policy makes few that are not.
// It holds no large ones, since it forgets none.
type distinct struct {
	mu sync.Mutex
	// known :: canonical form → the decision.
	known map[string]*Decision
}

// one returns a decision that is equal to d, whose canonical form is given, and may be
// shared.
func (s *distinct) one(d Decision, form string) *Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.known[form]; known != nil {
		return known
	}
	d.rendering = &Rendering{}
	if len(s.known) < maxDistinct {
		if s.known == nil {
			s.known = make(map[string]*Decision)
		}
		s.known[form] = &d
	}
	return &d
}

// canonical returns a text that two decisions share only if all their fields are
// equal. It reports false if there is none.
func canonical(d Decision) (string, bool) {
	if value, bare := d.Value.(bool); bare && d.Plain && d.Metadata == nil {
		return fmt.Sprintf("%d %t %q %q %q", d.Verdict, value, d.Failure, d.Rule, d.Reason), true
	}
	text, err := json.Marshal(d)
	// JSON writes all bytes that are no UTF-8 alike.
	return string(text), err == nil && !bytes.Contains(text, []byte(`\ufffd`))
}

// Rendering is a place in which a front keeps what it has made of a remembered
// decision. It is safe for concurrent use.
type Rendering struct{ value atomic.Value }

// Load returns what was stored, or nil.
func (r *Rendering) Load() any { return r.value.Load() }

// Store stores a value, always of the same type.
func (r *Rendering) Store(value any) { r.value.Store(value) }

// Rendering returns the place of a decision that is remembered; nil if it is not, or is
// large.
func (d Decision) Rendering() *Rendering { return d.rendering }
