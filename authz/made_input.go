package authz

import (
	"errors"
	"sync"

	"understudy/rego"
)

// madeInput is an input document that is made on first use. It is safe for concurrent
// use.
type madeInput struct {
	mu    sync.Mutex
	made  bool
	input rego.Input
	err   error
}

// once returns the document, made now if it has not been. That there was no memory or no
// time for it is not kept: the next one may have more of both.
func (m *madeInput) once(source func() (rego.Input, error)) (rego.Input, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.made {
		return m.input, m.err
	}
	// A source that panics leaves this to the policies that ask after it.
	m.made, m.err = true, errSourcePanicked
	m.input, m.err = source()
	m.made = m.err == nil || Unreadable(m.err).Failure.OfRequest()
	return m.input, m.err
}

var errSourcePanicked = errors.New("making the input document panicked")
