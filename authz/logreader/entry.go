package logreader

import (
	"math"
	"strconv"
	"time"
)

// Entry is a request that was recorded, mostly with what was decided about it then. Its
// documents share the memory of the record that it was parsed from.
type Entry struct {
	// DecisionID is the ID under which it was recorded; empty if there is none.
	DecisionID string
	// Time is when it was decided, by the clock that the policy saw if the log has it. It is
	// zero if it is not known.
	Time time.Time
	// Path is the rule that was asked, such as envoy/authz/allow; in the log of a chain the
	// rule that decided. It is empty if it is not known.
	Path string
	// Query is that of an ad-hoc query, which asks no rule.
	Query string
	// Input is the input document as it was recorded; nil if there is none.
	Input Document
	// Check is a CheckRequest, instead of an input document.
	Check Document
	// Result is what the rule gave; nil if the log has none.
	Result Document
	// Error is that of the decision; nil if there was none.
	Error Document
	// Erased and Masked are JSON pointers (RFC 6901) into the event, as an array: what was
	// taken out before it was written, and what was replaced.
	Erased, Masked Document
	// Bundles :: name → what was active, with its revision.
	Bundles Document
	// Revision is that of OPA's oldest logs, which know no bundles.
	Revision string
	// Sampling is what an event of a log that is a sample says of that; nil if the log has every
	// decision, or does not say.
	Sampling Document
}

// addMember takes what a member of an event says. What it does not know changes nothing: of
// what OPA documents, these say nothing of the request or the decision: batch_decision_id,
// custom, intermediate_results, mapped_result, metrics, req_id, request_context, requested_by,
// rule_labels, span_id, trace_id, and labels, which are those of the OPA.
func (e *Entry) addMember(name []byte, value Document) {
	switch string(name) {
	case "timestamp":
		e.Time = timeOf(value.Text())
	case "input":
		e.Input = value
	case "result":
		e.Result = value
	default:
		if text := e.textNamed(name); text != nil {
			*text = value.Text()
		}
		if document := e.documentNamed(name); document != nil {
			*document = known(value)
		}
	}
}

// textNamed is where the text of a member is kept; nil if nothing of it is.
func (e *Entry) textNamed(name []byte) *string {
	switch string(name) {
	case "decision_id":
		return &e.DecisionID
	case "path":
		return &e.Path
	case "query":
		return &e.Query
	case "revision":
		return &e.Revision
	default:
		return nil
	}
}

// documentNamed is where a member is kept that may as well be null; nil if it is not kept.
func (e *Entry) documentNamed(name []byte) *Document {
	switch string(name) {
	case "error":
		return &e.Error
	case "erased":
		return &e.Erased
	case "masked":
		return &e.Masked
	case "bundles":
		return &e.Bundles
	case "sampling":
		return &e.Sampling
	default:
		return nil
	}
}

// known returns a document; nil for null.
func known(d Document) Document {
	if d.Kind() == 'n' {
		return nil
	}
	return d
}

// clockCall is the key of a call without arguments in nd_builtin_cache, and clock the built-in
// that reads the clock.
const (
	clock     = "time.now_ns"
	clockCall = "[]"
)

// addClock takes the time that the policy saw from the answers of built-ins
// (nd_builtin_cache), which is more exact than that of the event. The other answers are left:
// they are of built-ins that policies cannot call here.
func (e *Entry) addClock(answers Document) {
	nanos, err := strconv.ParseInt(string(answers.At(clock, clockCall)), 10, 64)
	if err == nil && nanos > 0 && nanos < math.MaxInt64 {
		e.Time = time.Unix(0, nanos).UTC()
	}
}

// timeOf returns a time of RFC 3339; zero if the text is none.
func timeOf(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}
