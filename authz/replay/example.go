package replay

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"understudy/authz"
)

// Example is an entry that the two policies decide differently: the first of its group.
type Example struct {
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

// WithoutExample is a group of differences of which no entry can be an [Example].
type WithoutExample struct {
	Method, Path string
	// DecisionID is that of its first entry, and Reason why there is none.
	DecisionID, Reason string
}

// maxExample is the largest input that is kept for an example, in bytes.
const maxExample = 64 << 10

// Why an entry is no example.
const (
	noDecision = "one of the policies fails there, and a test states a decision"
	noDocument = "its request makes no input document"
	noRoom     = "there are examples of so many groups already"
)

// examples keeps the first entry of each group that can be one.
type examples struct {
	kept []Example
	// has says of a group whether there is an example of it; without are those that have none.
	has     map[groupKey]bool
	without map[groupKey]WithoutExample
}

func newExamples() *examples {
	return &examples{has: make(map[groupKey]bool), without: make(map[groupKey]WithoutExample)}
}

// keep keeps an entry as the example of its group, if the group has none.
func (w *examples) keep(key groupKey, j *judgement) {
	if w.has[key] {
		return
	}
	input, why := w.inputOf(j)
	if why == "" {
		w.has[key] = true
		delete(w.without, key)
		w.kept = append(w.kept, Example{
			Difference: j.difference, Method: key.method, Path: key.path, Input: input,
			Time: j.request.Time, DecisionID: j.request.ID, Live: j.live, Candidate: j.candidate,
		})
		return
	}
	if _, known := w.without[key]; !known && len(w.without) < maxGroups {
		w.without[key] = WithoutExample{Method: key.method, Path: key.path, DecisionID: j.request.ID, Reason: why}
	}
}

// inputOf returns the input document of an entry that can be an example, or why it is none.
func (w *examples) inputOf(j *judgement) (input []byte, why string) {
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
	if len(input) > maxExample {
		return nil, fmt.Sprintf("its input document has %d bytes, more than the %d of a test", len(input), maxExample)
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

// left returns the groups without an example, in the order of their method and path.
func (w *examples) left() (out []WithoutExample) {
	for _, of := range w.without {
		out = append(out, of)
	}
	slices.SortFunc(out, func(a, b WithoutExample) int {
		return slices.Compare([]string{a.Path, a.Method, a.DecisionID, a.Reason}, []string{b.Path, b.Method, b.DecisionID, b.Reason})
	})
	return out
}
