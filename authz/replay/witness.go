package replay

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"understudy/authz"
)

// Witness is an entry that the two policies decide differently: the first of its group.
type Witness struct {
	Difference   authz.Difference
	Method, Path string
	// Input is the input document, Time the clock of the policies.
	Input []byte
	Time  time.Time
	// DecisionID is that of the log.
	DecisionID string
	// Live and Candidate are the decisions.
	Live, Candidate authz.Decision
}

// Unwitnessed is a group of differences of which no entry can be a [Witness].
type Unwitnessed struct {
	Method, Path string
	// DecisionID is that of its first entry, and Reason why there is none.
	DecisionID, Reason string
}

// maxWitness is the largest input that is kept for a witness, in bytes.
const maxWitness = 64 << 10

// Why an entry is no witness.
const (
	noDecision = "one of the policies fails there, and a test states a decision"
	noDocument = "its request makes no input document"
	noRoom     = "there are witnesses of so many groups already"
)

// witnesses keeps the first entry of each group that can be one.
type witnesses struct {
	kept []Witness
	// has says of a group whether there is a witness of it; without are those that have none.
	has     map[groupKey]bool
	without map[groupKey]Unwitnessed
}

func newWitnesses() *witnesses {
	return &witnesses{has: make(map[groupKey]bool), without: make(map[groupKey]Unwitnessed)}
}

// keep keeps an entry as the witness of its group, if the group has none.
func (w *witnesses) keep(key groupKey, j *judgement) {
	if w.has[key] {
		return
	}
	input, why := w.inputOf(j)
	if why == "" {
		w.has[key] = true
		delete(w.without, key)
		w.kept = append(w.kept, Witness{
			Difference: j.difference, Method: key.method, Path: key.path, Input: input,
			Time: j.request.Time, DecisionID: j.request.ID, Live: j.live, Candidate: j.candidate,
		})
		return
	}
	if _, known := w.without[key]; !known && len(w.without) < maxGroups {
		w.without[key] = Unwitnessed{Method: key.method, Path: key.path, DecisionID: j.request.ID, Reason: why}
	}
}

// inputOf returns the input document of an entry that can be a witness, or why it is none.
func (w *witnesses) inputOf(j *judgement) (input []byte, why string) {
	switch {
	case j.difference != authz.NewlyDenied && j.difference != authz.NewlyAllowed && j.difference != authz.ResponseChanged:
		return nil, noDecision
	case len(w.kept) >= maxGroups:
		return nil, noRoom
	case j.entry.Check != nil:
		if input = documentOf(j.request); input == nil {
			return nil, noDocument
		}
	default:
		input = slices.Clone(j.entry.Input)
	}
	if len(input) > maxWitness {
		return nil, fmt.Sprintf("its input document has %d bytes, more than the %d of a test", len(input), maxWitness)
	}
	return input, ""
}

// documentOf returns the input document that a CheckRequest comes to; nil if that is none.
func documentOf(r *authz.Request) []byte {
	made, err := r.Input(nil)
	if err != nil {
		return nil
	}
	document, err := made.Document()
	if err != nil {
		return nil
	}
	encoded, err := json.Marshal(document)
	if err != nil {
		return nil
	}
	return encoded
}

// left returns the groups without a witness, in the order of their method and path.
func (w *witnesses) left() (out []Unwitnessed) {
	for _, of := range w.without {
		out = append(out, of)
	}
	slices.SortFunc(out, func(a, b Unwitnessed) int {
		return slices.Compare([]string{a.Path, a.Method, a.DecisionID, a.Reason}, []string{b.Path, b.Method, b.DecisionID, b.Reason})
	})
	return out
}
