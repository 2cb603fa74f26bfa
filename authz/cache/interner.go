package cache

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"understudy/authz"
)

// maxInternedSize is the size of the largest decision that is interned and has a
// rendering, in bytes. Whatever else is made of decisions hangs on renderings, so that
// none of it holds large ones.
const maxInternedSize = 4 << 10

// maxInterned is how many decisions are interned. Policies whose decisions differ more
// than that, such as by a header for each user, share none of the rest.
const maxInterned = 4096

// What a decision takes, in bytes: at least, and for each byte of its canonical form. A
// decision has its texts as fields and once more in its value, and the rendering has them too.
const (
	bytesPerKept = 1024
	bytesPerForm = 4
)

// weightOf returns about what a decision takes with its rendering, in bytes.
func weightOf(form string) uint32 { return bytesPerKept + bytesPerForm*uint32(len(form)) }

// interner stores one copy of each distinct decision: a policy makes few of them. It never
// evicts, so it takes small decisions only, and no more than its limit. It is safe for concurrent use.
type interner struct {
	mu sync.Mutex
	// limit is how much all that is stored may weigh, and weight what it weighs, in bytes.
	limit, weight uint64
	// known :: canonical form → the decision.
	known map[string]*authz.Decision
	// answers :: canonical form without labels → the rendering of all decisions that differ
	// in labels alone. Users have labels of their own; Envoy gets one answer.
	answers map[string]*authz.Rendering
}

// newInterner returns one that has stored nothing, and stores some bytes at most.
func newInterner(limit uint64) *interner {
	return &interner{limit: limit, known: make(map[string]*authz.Decision), answers: make(map[string]*authz.Rendering)}
}

// resize changes how many bytes are stored at most. What is stored stays.
func (i *interner) resize(limit uint64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.limit = limit
}

// intern returns the copy of a decision that is equal to d, whose canonical form is given, and
// what the copy weighs for the caller: zero if it is stored here.
func (i *interner) intern(d authz.Decision, form string) (one *authz.Decision, weight uint32) {
	answer, labelled := answerForm(d)
	i.mu.Lock()
	defer i.mu.Unlock()
	if one = i.known[form]; one != nil {
		return one, 0
	}
	rendering := &authz.Rendering{}
	if labelled {
		if known := i.answers[answer]; known != nil {
			rendering = known.Sharing()
		} else if store(i, i.answers, answer, rendering) {
			rendering = rendering.Sharing()
		}
	}
	d = d.Detached().WithRendering(rendering)
	if !store(i, i.known, form, &d) {
		weight = weightOf(form)
	}
	return &d, weight
}

// store stores what is known of a form, and reports whether there was room.
func store[V any](i *interner, known map[string]*V, form string, v *V) bool {
	weight := uint64(weightOf(form)) + uint64(len(form)) // which is the key
	if len(known) == maxInterned || i.weight+weight > i.limit {
		return false
	}
	known[form] = v
	i.weight += weight
	return true
}

// answerForm returns the canonical form of a decision without its labels, and without the
// value, which has them too. It reports false if there are none.
func answerForm(d authz.Decision) (string, bool) {
	if len(d.Labels) == 0 {
		return "", false
	}
	d.Labels, d.LabelsIgnored, d.Value = nil, false, nil
	return canonical(d)
}

// canonical returns a text that two decisions of one policy share only if all their fields
// are equal; the path of the rule is that of its ID. It reports false if there is none.
func canonical(d authz.Decision) (string, bool) {
	if value, bare := d.Value.(bool); bare && d.Plain && d.Metadata == nil && d.Labels == nil && !d.LabelsIgnored {
		return fmt.Sprintf("%d %t %q %q %q", d.Effect, value, d.Failure, d.Rule, d.Reason), true
	}
	text, err := json.Marshal(d)
	// JSON writes all bytes that are no UTF-8 alike.
	return string(text), err == nil && !bytes.Contains(text, []byte(`\ufffd`))
}
