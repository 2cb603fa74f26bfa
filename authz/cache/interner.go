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
}

// intern returns the copy of a decision that is equal to d, whose canonical form is given.
func (i *interner) intern(d authz.Decision, form string) *authz.Decision {
	i.mu.Lock()
	defer i.mu.Unlock()
	if known := i.known[form]; known != nil {
		return known
	}
	d = d.WithRendering(&authz.Rendering{})
	if len(i.known) < maxInterned {
		if i.known == nil {
			i.known = make(map[string]*authz.Decision)
		}
		i.known[form] = &d
	}
	return &d
}

// canonical returns a text that two decisions of one policy share only if all their fields
// are equal; the path of the rule is that of its ID. It reports false if there is none.
func canonical(d authz.Decision) (string, bool) {
	if value, bare := d.Value.(bool); bare && d.Plain && d.Metadata == nil && d.Labels == nil && !d.LabelsIgnored {
		return fmt.Sprintf("%d %t %q %q %q", d.Verdict, value, d.Failure, d.Rule, d.Reason), true
	}
	text, err := json.Marshal(d)
	// JSON writes all bytes that are no UTF-8 alike.
	return string(text), err == nil && !bytes.Contains(text, []byte(`\ufffd`))
}
