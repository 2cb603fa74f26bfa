package authz

import (
	"net/http"
	"reflect"
	"slices"
)

// Difference is how the decision of an experiment differs from the live one. Its
// values are those of Report.Difference.Kind, and UNCHANGED.
type Difference string

// The differences.
const (
	// Unchanged: a client and an upstream cannot tell the two apart.
	Unchanged Difference = "UNCHANGED"
	// NewlyDenied: the live policy allows, the experiment denies.
	NewlyDenied Difference = "NEWLY_DENIED"
	// NewlyAllowed: the live policy denies, the experiment allows.
	NewlyAllowed Difference = "NEWLY_ALLOWED"
	// ResponseChanged: the verdict is the same; something else of the answer is not.
	ResponseChanged Difference = "RESPONSE_CHANGED"
	// ExperimentFailed: the experiment failed to decide.
	ExperimentFailed Difference = "FAILED"
	// LiveFailed: the experiment decided, and the live policy did not, for a reason that
	// is none of its content: it ran out of time, say. The two cannot be compared.
	LiveFailed Difference = "LIVE_FAILED"
)

// undecided reports whether a failure says nothing of what a policy decides: the same
// request may be decided the next time. A rule that is undefined, of a wrong type, or in
// conflict, and a service without an answer, are a denial by what the policy says, and are
// compared as one: to commit an experiment that allows there does open something.
func undecided(f Failure) bool {
	return f == FailureDeadline || f == FailureOverloaded || f == FailureCanceled || f == FailurePanic
}

// Compare says how an experiment's decision differs from the live one. The answers
// are compared whole: verdict, status, headers, query, body and metadata.
//
// A request that neither policy could read is not a failure of the experiment: it is
// compared by its answers. Otherwise any caller could make an experiment look broken
// by sending requests that do not parse.
func Compare(live, experiment Decision) Difference {
	unreadable := live.Failure == FailureRequest && experiment.Failure == FailureRequest
	switch {
	case experiment.Failure != "" && !unreadable:
		return ExperimentFailed
	case undecided(live.Failure):
		return LiveFailed
	case live.Verdict == Allow && experiment.Verdict == Deny:
		return NewlyDenied
	case live.Verdict == Deny && experiment.Verdict == Allow:
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
	if d.Verdict == Allow {
		return 0
	}
	if d.HTTPStatus != 0 {
		return d.HTTPStatus
	}
	return http.StatusForbidden
}
