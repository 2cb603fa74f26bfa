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

// interner stores one copy of each distinct decision: a policy makes few of them. It never
// evicts, so it takes small decisions only. It is safe for concurrent use.
type interner struct {
	mu sync.Mutex
	// known :: canonical form → the decision.
	known map[string]*authz.Decision
	// answers :: canonical form without labels → the rendering of all decisions that differ
	// in labels alone. Users have labels of their own; Envoy gets one answer.
	answers map[string]*authz.Rendering
}

// newInterner returns one that has stored nothing.
func newInterner() *interner {
	return &interner{known: make(map[string]*authz.Decision), answers: make(map[string]*authz.Rendering)}
}

// intern returns the copy of a decision that is equal to d, whose canonical form is given.
func (i *interner) intern(d authz.Decision, form string) *authz.Decision {
	answer, labelled := answerForm(d)
	i.mu.Lock()
	defer i.mu.Unlock()
	return once(i.known, form, func() *authz.Decision {
		rendering := &authz.Rendering{}
		if labelled {
			rendering = once(i.answers, answer, func() *authz.Rendering { return &authz.Rendering{} }).Sharing()
		}
		d = d.WithRendering(rendering)
		return &d
	})
}

// once returns what is known of a form, made now if there is nothing, and stored if there is
// room.
func once[V any](known map[string]*V, form string, made func() *V) *V {
	if v := known[form]; v != nil {
		return v
	}
	v := made()
	if len(known) < maxInterned {
		known[form] = v
	}
	return v
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
