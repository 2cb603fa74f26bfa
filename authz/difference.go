package authz

import (
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"understudy/authz/diagnostics"
)

// Difference is how the decision of an experiment differs from the live one. Its
// values are those of Report.Difference.Kind, and UNCHANGED.
type Difference string

// The differences.
const (
	// Unchanged: a client and an upstream see no difference.
	Unchanged Difference = "UNCHANGED"
	// NewlyDenied: the live policy allows, the experiment denies.
	NewlyDenied Difference = "NEWLY_DENIED"
	// NewlyAllowed: the live policy denies, the experiment allows.
	NewlyAllowed Difference = "NEWLY_ALLOWED"
	// ResponseChanged: the effect is the same; something else of the answer is not.
	ResponseChanged Difference = "RESPONSE_CHANGED"
	// ExperimentFailed: the experiment failed to decide, and the live policy did not fail alike.
	ExperimentFailed Difference = "FAILED"
	// LiveFailed: the live policy decided nothing, for a reason that is none of its content: it
	// ran out of time, say. The two cannot be compared, whatever the experiment did.
	LiveFailed Difference = "LIVE_FAILED"
)

// undecided reports whether a failure says nothing of what a policy decides: the same
// request may be decided the next time. Every other failure is a denial by what the policy
// says, and is compared as one: a rule that is undefined, of a wrong type, or in conflict, a
// request that cannot be read, and a service without an answer. To commit an experiment that
// allows there does open something.
func undecided(f Failure) bool {
	return f == FailureDeadline || f == FailureOverloaded || f == FailureCanceled || f == FailurePanic
}

// Compare says how an experiment's decision differs from the live one. The answers
// are compared whole: effect, status, headers, query, body and metadata.
//
// Of failures there are three rules, in this order. Where the live policy is undecided, there
// is nothing to compare. Where both fail alike, for a reason of the same class, both deny,
// and are compared by their answers: most policies without a default are undefined for anyone who
// has no right, and any caller can send requests that do not parse. Any other failure of the
// experiment is one that it adds, also where the live policy denies or fails otherwise.
func Compare(live, experiment Decision) Difference {
	switch {
	case undecided(live.Failure):
		return LiveFailed
	case experiment.Failure != "" && experiment.Failure != live.Failure:
		return ExperimentFailed
	case live.Effect == Allow && experiment.Effect == Deny:
		return NewlyDenied
	case live.Effect == Deny && experiment.Effect == Allow:
		return NewlyAllowed
	case !sameAnswer(live, experiment):
		return ResponseChanged
	default:
		return Unchanged
	}
}

func sameAnswer(a, b Decision) bool {
	return a.Status() == b.Status() &&
		a.Body == b.Body &&
		slices.Equal(a.Headers, b.Headers) &&
		slices.Equal(a.ResponseHeaders, b.ResponseHeaders) &&
		slices.Equal(a.RemoveHeaders, b.RemoveHeaders) &&
		slices.Equal(a.SetQuery, b.SetQuery) &&
		slices.Equal(a.RemoveQuery, b.RemoveQuery) &&
		(len(a.Metadata) == 0 && len(b.Metadata) == 0 || reflect.DeepEqual(a.Metadata, b.Metadata))
}

// Status returns the HTTP status of a denial: 403 unless the policy chose another.
// It is 0 for an allowed request.
func (d Decision) Status() int {
	if d.Effect == Allow {
		return 0
	}
	if d.HTTPStatus != 0 {
		return d.HTTPStatus
	}
	return http.StatusForbidden
}

// The bounds of what Changed returns: the names, and the bytes of what is quoted in one.
const (
	maxChanged     = 16
	maxChangedName = 64
)

// more stands for what was cut off.
const more = "…"

// Changed names what is not the same in two answers, and never says a value: "status",
// "body", "header x-role" (to the upstream), "response header x", "remove header x",
// "query x", "remove query x", "metadata tenant" (a key of its first level). "header (order)"
// is a change of the order alone. The names are sorted; of more than 16 the rest is one "…".
// Nil means that the answers are the same.
func Changed(live, experiment Decision) []string {
	if sameAnswer(live, experiment) {
		return nil
	}
	c := changes{names: make(map[string]bool)}
	if live.Status() != experiment.Status() {
		c.add("status")
	}
	if live.Body != experiment.Body {
		c.add("body")
	}
	c.addFields("header", live.toUpstream(), experiment.toUpstream())
	c.addFields("response header", live.toClient(), experiment.toClient())
	c.addFields("query", live.SetQuery, experiment.SetQuery)
	c.addFields("remove header", valueless(live.RemoveHeaders), valueless(experiment.RemoveHeaders))
	c.addFields("remove query", valueless(live.RemoveQuery), valueless(experiment.RemoveQuery))
	for _, side := range []map[string]any{live.Metadata, experiment.Metadata} {
		for key := range side {
			a, inLive := live.Metadata[key]
			b, inExperiment := experiment.Metadata[key]
			if inLive != inExperiment || !reflect.DeepEqual(a, b) {
				c.add("metadata " + bounded(key))
			}
		}
	}
	return c.sorted()
}

// toUpstream are the headers that the upstream gets.
func (d Decision) toUpstream() []Field {
	if d.Effect == Allow {
		return d.Headers
	}
	return nil
}

// toClient are the headers that the client gets.
func (d Decision) toClient() []Field {
	if d.Effect == Allow {
		return d.ResponseHeaders
	}
	return d.Headers
}

// valueless are names as fields.
func valueless(names []string) []Field {
	out := make([]Field, len(names))
	for i, name := range names {
		out[i].Name = name
	}
	return out
}

// changes are the names of what is not the same.
type changes struct{ names map[string]bool }

func (c changes) add(name string) { c.names[name] = true }

// addFields adds the fields of a kind of which one side has other values. A header's name
// has no case.
func (c changes) addFields(kind string, live, experiment []Field) {
	if slices.Equal(live, experiment) {
		return
	}
	a, b, before := byName(live), byName(experiment), len(c.names)
	for _, side := range []map[string][]string{a, b} {
		for name := range side {
			if slices.Equal(a[name], b[name]) {
				continue
			}
			if strings.HasSuffix(kind, "header") {
				name = strings.ToLower(name)
			}
			c.add(kind + " " + bounded(name))
		}
	}
	if len(c.names) == before {
		c.add(kind + " (order)")
	}
}

// byName :: name → its values, in their order.
func byName(fields []Field) map[string][]string {
	out := make(map[string][]string, len(fields))
	for _, f := range fields {
		out[f.Name] = append(out[f.Name], f.Value)
	}
	return out
}

// bounded makes a name that a policy gave fit for a record.
func bounded(name string) string {
	return diagnostics.Clean(diagnostics.Cut(name, maxChangedName))
}

// sorted returns the names, as many as are allowed.
func (c changes) sorted() []string {
	out := slices.Sorted(maps.Keys(c.names))
	if len(out) > maxChanged {
		out = append(out[:maxChanged:maxChanged], more)
	}
	return out
}
