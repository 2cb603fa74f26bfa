package decisionlog

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"understudy/authz"

	"go.opentelemetry.io/otel/trace"
)

// event is one entry of the decision log, in the shape of OPA's EventV1, which those
// who read OPA's logs can read. Five things are our own: the ID of the request, the labels of
// the policy, a bundle is a policy and its revision the etag, an error has the code of the
// failure, and why the event is in a log that is a sample.
type event struct {
	Labels     map[string]string `json:"labels"`
	DecisionID string            `json:"decision_id"`
	// RequestID is the x-request-id, which is not OPA's either.
	RequestID string `json:"request_id,omitempty"`
	TraceID   string `json:"trace_id,omitempty"`
	SpanID    string `json:"span_id,omitempty"`
	// Bundles :: policy name → its version. A policy that does not exist has no
	// revision.
	Bundles map[authz.PolicyName]bundle `json:"bundles,omitempty"`
	// Path is the rule that Decided: the one that denied, or the last that passed.
	Path string `json:"path,omitempty"`
	// Input and Result belong to the event alone: masks change them.
	Input  any `json:"input,omitempty"`
	Result any `json:"result,omitempty"`
	// PolicyLabels are the labels that the policy gave, all rules of the chain together:
	// labels are OPA's, those of the node. They belong to the event alone too.
	PolicyLabels any `json:"policy_labels,omitempty"`
	// Erased and Masked are JSON pointers (RFC 6901) into the event: what was taken
	// out of it, and what was replaced.
	Erased    []string         `json:"erased,omitempty"`
	Masked    []string         `json:"masked,omitempty"`
	Error     *eventError      `json:"error,omitempty"`
	Timestamp time.Time        `json:"timestamp"`
	Metrics   map[string]int64 `json:"metrics,omitempty"`
	// Sampling is not OPA's: nil if all decisions are logged.
	Sampling *sampleInfo `json:"sampling,omitempty"`
}

type bundle struct {
	Revision string `json:"revision,omitempty"`
}

type eventError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// newEvent returns the event of a decision with everything in it. Nothing of it is
// shared with the decision, which may be in the cache and be answered again while masks
// change the event.
func (l *Log) newEvent(d Decided, reading *authz.ReadBudget) *event {
	e := &event{
		Labels:     l.labels,
		DecisionID: d.Request.ID,
		RequestID:  d.Request.ExternalID(),
		Path:       d.Decision.RulePath(),
		Result:     d.result(),
		Timestamp:  d.Request.Time.UTC(),
	}
	if d.took > 0 {
		e.Metrics = map[string]int64{"timer_server_handler_ns": d.took.Nanoseconds()}
	}
	if d.keptBy != "" {
		e.Sampling = &sampleInfo{l.sample.rate, d.keptBy}
	}
	e.addInput(d.Request, reading)
	e.addLabels(d.Decision.Labels)
	if d.Policy != "" {
		e.Bundles = map[authz.PolicyName]bundle{d.Policy: {d.Etag}}
	}
	if d.Decision.Failure != "" {
		e.Error = &eventError{string(d.Decision.Failure), d.Decision.Reason}
	}
	if d.trace.IsValid() {
		e.TraceID, e.SpanID = traceIDs(d.trace)
	}
	return e
}

func traceIDs(span trace.SpanContext) (traceID, spanID string) {
	return span.TraceID().String(), span.SpanID().String()
}

// addInput adds a copy of the whole input document, of which the policy may have looked
// at a part only; nothing if there is none. It is made from the request anew, since a
// decision from the cache never had one. A body that cannot be read, or only at too
// high a cost, is left out of it.
func (e *event) addInput(r *authz.Request, reading *authz.ReadBudget) {
	input, err := r.Input(reading)
	if err != nil && r.WithoutBody != nil {
		if input, err = r.WithoutBody(nil, false); err == nil {
			e.Erased = append(e.Erased, parsedBody)
		}
	}
	if err != nil {
		return
	}
	if document, err := input.Document(); err == nil {
		e.Input = document
	}
}

// addLabels adds the labels of a decision.
func (e *event) addLabels(labels []authz.Label) {
	if len(labels) == 0 {
		return
	}
	object := make(map[string]any, len(labels))
	for _, l := range labels {
		object[l.Name] = l.Value
	}
	e.PolicyLabels = object
}

// parsedBody is where what is read of a body stands in an event.
const parsedBody = "/input/parsed_body"

// result returns a copy of the value of the rule that Decided. That of a default
// decision is the effect; a policy that failed has none, or one of a wrong type.
func (d Decided) result() any {
	if d.Decision.Default {
		return d.Decision.Effect == authz.Allow
	}
	return clone(d.Decision.Value)
}

// clone copies a value in the types of encoding/json.
func clone(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, element := range v {
			out[key] = clone(element)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, element := range v {
			out[i] = clone(element)
		}
		return out
	}
	return value
}

// The parts of an event that masks reach.
const (
	partInput  = "input"
	partResult = "result"
	partLabels = "policy_labels"
)

// tree returns the parts of the event that pointers lead into.
func (e *event) tree() map[string]any {
	out := make(map[string]any, 3)
	if e.Input != nil {
		out[partInput] = e.Input
	}
	if e.Result != nil {
		out[partResult] = e.Result
	}
	if e.PolicyLabels != nil {
		out[partLabels] = e.PolicyLabels
	}
	return out
}

// setTree puts the parts back after a change.
func (e *event) setTree(tree map[string]any) {
	e.Input, e.Result, e.PolicyLabels = tree[partInput], tree[partResult], tree[partLabels]
}

// erase takes what the pointers lead to out of the event, and says so.
func (e *event) erase(pointers ...string) {
	tree := e.tree()
	for _, text := range pointers {
		if p, err := parsePointer(text); err == nil && p.remove(tree) {
			e.Erased = append(e.Erased, p.String())
		}
	}
	e.setTree(tree)
}

// strip takes the input, the result and the labels out of an event of which nobody knows
// what has to be masked.
func (e *event) strip(why error) {
	e.erase("/"+partInput, "/"+partResult, "/"+partLabels)
	reason := "Input and result are left out: the policy's rules for the log did not say what to mask: " + why.Error() + "."
	if e.Error == nil {
		e.Error = &eventError{Code: codeMask, Message: reason}
		return
	}
	e.Error.Message += " " + reason
}

// resultLabels returns a copy of what the result says of labels; nil if there is none.
func (e *event) resultLabels() map[string]any {
	result, _ := e.Result.(map[string]any)
	labels, _ := result["labels"].(map[string]any)
	return maps.Clone(labels)
}

// eraseMaskedLabels takes out the labels of which the result does not say the same as
// before its masks: what they hide there must not stand next to it.
func (e *event) eraseMaskedLabels(before map[string]any) {
	if slices.Contains(e.Erased, "/"+partResult) {
		e.erase("/" + partLabels)
		return
	}
	labels, _ := e.PolicyLabels.(map[string]any)
	after := e.resultLabels()
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, ok := labels[name]; ok && !reflect.DeepEqual(before[name], after[name]) {
			e.erase("/" + partLabels + "/" + name)
		}
	}
}

// requestIDFields returns what the input says of the x-request-id: the value of the header,
// and the entries of the header map under its name. What a mask hides there must not stand
// next to it.
func (e *event) requestIDFields() (out []any) {
	value := e.Input
	for _, name := range []string{"attributes", "request", "http"} {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	http, _ := value.(map[string]any)
	if headers, ok := http["headers"].(map[string]any); ok {
		out = append(out, headers["x-request-id"])
	}
	headerMap, _ := http["headerMap"].(map[string]any)
	entries, _ := headerMap["headers"].([]any)
	for _, entry := range entries {
		if header, ok := entry.(map[string]any); ok && header["key"] == "x-request-id" {
			out = append(out, header["value"], header["rawValue"])
		}
	}
	return out
}

// tooLarge is what an event loses if it is too large, in this order: first what is
// large most often and explains a decision least.
var tooLarge = [][]string{
	{
		"/input/attributes/request/http/rawBody", "/input/attributes/request/http/body", parsedBody,
	},
	{"/input"},
	{"/result"},
	{"/" + partLabels},
}

// encode returns the event as one line of JSON of at most limit bytes. Collectors drop
// or cut records above a size of theirs, and a cut line of JSON is no event.
func (e *event) encode(limit int) (string, error) {
	text, err := e.json()
	for _, pointers := range tooLarge {
		if err != nil || len(text) <= limit {
			return text, err
		}
		e.erase(pointers...)
		text, err = e.json()
	}
	if err == nil && len(text) > limit {
		// What is left but the lists is bounded by what may be configured.
		e.Erased = slices.DeleteFunc([]string{"/input", "/result", "/" + partLabels}, func(p string) bool {
			return p == "/"+partLabels && !slices.Contains(e.Erased, p)
		})
		e.Masked = nil
		text, err = e.json()
	}
	return text, err
}

func (e *event) json() (string, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(e)
	return strings.TrimSuffix(out.String(), "\n"), err
}
