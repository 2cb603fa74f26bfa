package authz

import (
	"slices"
	"strings"
	"sync/atomic"

	"understudy/authz/diagnostics"
	"understudy/rego"
)

// Effect is the outcome of a decision.
type Effect uint8

// Deny is the zero Effect, so that a decision that nobody made is a denial.
const (
	Deny Effect = iota
	Allow
)

// String returns ALLOW or DENY, as preview records have it.
func (v Effect) String() string {
	if v == Allow {
		return "ALLOW"
	}
	return "DENY"
}

// Field is one header or query parameter of a decision.
type Field struct {
	Name  string
	Value string
}

// Label is one thing that a policy says of who asks, such as the user of a token. It is for
// records, logs and reports: Envoy never gets it, and it is never compared.
type Label struct {
	// Name has 1 to 64 bytes: letters and digits of ASCII, and any of "_-.".
	Name string
	// Value has at most 128 bytes, valid and fit for one line.
	Value string
}

// The bounds of labels: their number, and the bytes of each.
const (
	MaxLabels     = 8
	maxLabelName  = 64
	maxLabelValue = 128
)

// AttributeLabel begins the keys of the attributes of a record that are labels: each ends with
// the name.
const AttributeLabel = "understudy.label."

// Valid reports whether a label is within its bounds.
func (l Label) Valid() bool {
	return validLabelName(l.Name) && len(l.Value) <= maxLabelValue && diagnostics.Clean(l.Value) == l.Value
}

func validLabelName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.' {
			return false
		}
	}
	return name != "" && len(name) <= maxLabelName
}

// LabelsOf returns the labels of a request on which two policies decided: those that the
// live one gave, or else the experiment's.
func LabelsOf(live, experiment Decision) []Label {
	if len(live.Labels) > 0 {
		return live.Labels
	}
	return experiment.Labels
}

// Decision is the answer to a Request, complete enough to be compared: two
// decisions are the same exactly if a client and an upstream see no
// difference. It is immutable once returned and may be shared.
type Decision struct {
	// Effect says whether the request may pass.
	Effect Effect
	// Failure says why the policy could not decide. The effect is Deny then.
	// Empty if the policy decided.
	Failure Failure
	// Rule is the ID of the rule that decided: the one that denied, or empty.
	Rule string
	// Reason is the message of the denial or of the failure, for records and logs.
	// It may quote the policy, never the request.
	Reason string
	// Default says that there was no policy to ask: the default decision.
	Default bool

	// Value is what the rule that decided gave, in the types of encoding/json: the one
	// that denied, or the last of those that passed. It is for the decision log and no
	// part of the answer. It must not be modified: it may be shared. Nil means none.
	Value any

	// Plain says that the policy answered with a bare boolean, which Envoy gets
	// without an HTTP response of ours.
	Plain bool
	// HTTPStatus is the status of a denial. Zero means 403.
	HTTPStatus int
	// Body is the body of a denial.
	Body string
	// Headers go to the upstream on Allow and to the client on Deny.
	Headers []Field
	// ResponseHeaders are added to the upstream's response on Allow.
	ResponseHeaders []Field
	// RemoveHeaders are taken from the request on Allow.
	RemoveHeaders []string
	// SetQuery replaces query parameters of the request on Allow.
	SetQuery []Field
	// RemoveQuery takes query parameters from the request on Allow.
	RemoveQuery []string
	// Metadata is the dynamic metadata for Envoy's later filters.
	Metadata map[string]any

	// Labels are what the policy says of who asks, by name, each once. They are no part of
	// the answer and are not compared.
	Labels []Label
	// LabelsIgnored says that the policy gave labels that are none, or too many. That is no
	// failure: the field may have a meaning of the policy's own.
	LabelsIgnored bool

	// leaf and timed: see Leaf and Timed.
	leaf  Leaf
	timed bool
	// exempt: see Exempt.
	exempt bool
	// rulePath: see RulePath.
	rulePath string
	// rendering: see Rendering.
	rendering *Rendering
}

// addEarlier adds the labels of the rules before the one that gave d. Of two with one name
// the later rule's stays, and so it is where there are too many.
func (d *Decision) addEarlier(labels []Label, ignored bool) {
	d.LabelsIgnored = d.LabelsIgnored || ignored
	switch {
	case len(labels) == 0:
		return
	case len(d.Labels) == 0:
		d.Labels = labels
		return
	}
	merged := slices.Clip(d.Labels) // it may be shared
	for _, l := range labels {
		if slices.ContainsFunc(d.Labels, func(own Label) bool { return own.Name == l.Name }) {
			continue
		}
		if len(merged) == MaxLabels {
			d.LabelsIgnored = true
			break
		}
		merged = append(merged, l)
	}
	if len(merged) > len(d.Labels) {
		slices.SortFunc(merged, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
		d.Labels = merged
	}
}

// Leaf names requests of which evaluations by one policy have learned the same, so that they are decided
// alike, for the same reasons. Those of two policies have nothing to do with each other, nor have those that
// two processes give.
type Leaf = rego.Answer

// Leaf is the leaf of the request that was decided. It is zero if that is not known, as for decisions that
// cannot be cached.
func (d Decision) Leaf() Leaf { return d.leaf }

// WithLeaf returns the decision with the leaf of its request: for who knows it.
func (d Decision) WithLeaf(l Leaf) Decision {
	d.leaf = l
	return d
}

// Timed reports whether the decision depends on the time of the request: the policy has looked at the
// clock, or may have.
func (d Decision) Timed() bool { return d.timed }

// WithTimed returns the decision with what Timed says: for who made it elsewhere.
func (d Decision) WithTimed(timed bool) Decision {
	d.timed = timed
	return d
}

// Exempt says that no rule was asked, because the policy exempts the project.
func (d Decision) Exempt() bool { return d.exempt }

// RulePath is the path of the Rego rule that decided: the one that denied, or the last one
// that passed. It is empty if that was a rule of another kind, or none.
func (d Decision) RulePath() string { return d.rulePath }

// WithRulePath returns the decision with the path of the rule that decided: for who made it
// elsewhere.
func (d Decision) WithRulePath(path string) Decision {
	d.rulePath = path
	return d
}

// Rendering is the place for what a front makes of the decision. It is nil if the decision
// is not kept in a cache, or is large.
func (d Decision) Rendering() *Rendering { return d.rendering }

// WithRendering returns the decision with a place for what a front makes of it. All
// decisions with one place have to be equal.
func (d Decision) WithRendering(r *Rendering) Decision {
	d.rendering = r
	return d
}

// Rendering is a place in which a front keeps what it has made of a decision that is
// cached. It is safe for concurrent use.
type Rendering struct {
	value atomic.Value
	// answer has the value of a rendering that shares another one's; nil otherwise.
	answer *Rendering
}

// Sharing returns another place that always has what this one has. It is for a decision
// that is another one and the same answer: the two differ in labels alone.
func (r *Rendering) Sharing() *Rendering { return &Rendering{answer: r.place()} }

// place is where the value is.
func (r *Rendering) place() *Rendering {
	if r.answer != nil {
		return r.answer
	}
	return r
}

// Load returns what was stored, or nil.
func (r *Rendering) Load() any { return r.place().value.Load() }

// Store stores a value, always of the same type.
func (r *Rendering) Store(value any) { r.place().value.Store(value) }

// Failure is a reason for which a policy did not decide. Its values are used as
// metric labels and in records.
type Failure string

// The failures. The empty string means none.
const (
	// FailureUndefined: the rule has no value for this request.
	FailureUndefined Failure = "UNDEFINED"
	// FailureType: the rule's value, or a field of it, has the wrong type.
	FailureType Failure = "WRONG_TYPE"
	// FailureError: the evaluation ended with an error.
	FailureError Failure = "EVALUATION_ERROR"
	// FailureDeadline: the evaluation ran out of time.
	FailureDeadline Failure = "DEADLINE_EXCEEDED"
	// FailureOverloaded: so much is under way that the request could not be read, or was not
	// evaluated for as long as the caller waits.
	FailureOverloaded Failure = "OVERLOADED"
	// FailureCanceled: the caller left before there was a decision. Nobody is denied, and
	// nothing has failed.
	FailureCanceled Failure = "CANCELLED"
	// FailurePanic: the evaluation panicked.
	FailurePanic Failure = "PANIC"
	// FailureRequest: the request cannot become an input document.
	FailureRequest Failure = "BAD_REQUEST"
	// FailureDuplicateKey: the request has a JSON body with an object that has a key twice. Of two
	// values of one key the upstream may take the other one.
	FailureDuplicateKey Failure = "DUPLICATE_KEY"
	// FailureExternal: an external service gave no decision.
	FailureExternal Failure = "EXTERNAL_SERVICE"
	// FailureNotCalled: an experiment needs a call to an external service that the live
	// policy did not make and that is not made for experiments.
	FailureNotCalled Failure = "EXTERNAL_SERVICE_NOT_CALLED"
	// FailureRehearsal: an experiment ended the process that evaluates it, with its memory or
	// by what cannot be cancelled; or did so repeatedly, and is not evaluated any more.
	FailureRehearsal Failure = "REHEARSAL_PROCESS"
	// FailureNotReady: the sidecar has not loaded any policy yet.
	FailureNotReady Failure = "NOT_READY"
	// FailureNotFollowed: the request names a policy that this sidecar does not follow, though
	// others may.
	FailureNotFollowed Failure = "POLICY_NOT_FOLLOWED"
)

// Result returns ALLOW, DENY or, for a failure, ERROR; CANCELLED if the caller did not
// wait for one of them.
func (d Decision) Result() string {
	switch d.Failure {
	case "":
		return d.Effect.String()
	case FailureCanceled:
		return string(FailureCanceled)
	}
	return "ERROR"
}

// OfRequest reports whether the request is at fault: it cannot become an input document, and is answered
// with 400.
func (f Failure) OfRequest() bool { return f == FailureRequest || f == FailureDuplicateKey }

// Lasting reports whether a decision with this failure would be the same again, because
// policy and input alone make it: so it is for none.
func (f Failure) Lasting() bool { return f == "" || f == FailureUndefined || f == FailureType }
