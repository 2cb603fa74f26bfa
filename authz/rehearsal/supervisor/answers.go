package supervisor

import (
	"sync"

	"understudy/authz"
	"understudy/authz/rehearsal/wire"
)

const (
	// maxAnswers is how many answers of a candidate are kept, and maxAnswer the size of the largest, in
	// bytes.
	maxAnswers = 1024
	maxAnswer  = 4 << 10
)

// answers keeps the decisions that the process has sent, by their form: a few of them stand for nearly all
// requests. The zero value has none. It is safe for concurrent use.
type answers struct {
	mu sync.Mutex
	// known :: form without a leaf → the decision, which has a rendering.
	known map[string]authz.Decision
}

// parse reads the form of a decision, which it may change. Equal decisions have one rendering, as far as
// there is room.
func (a *answers) parse(payload []byte) (authz.Decision, error) {
	form, leaf := wire.CutLeaf(payload)
	a.mu.Lock()
	defer a.mu.Unlock()
	if d, known := a.known[string(form)]; known {
		return d.WithLeaf(leaf), nil
	}
	d, err := wire.ParseDecided(form)
	if err == nil && len(form) <= maxAnswer && len(a.known) < maxAnswers {
		if a.known == nil {
			a.known = make(map[string]authz.Decision)
		}
		d = d.WithRendering(&authz.Rendering{})
		a.known[string(form)] = d
	}
	return d.WithLeaf(leaf), err
}
