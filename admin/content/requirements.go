package content

import (
	"fmt"
	"slices"
	"time"

	"understudy/admin/apierror"
	adminpb "understudy/admin/v1"
)

// MaxRequiredDuration bounds min_duration: ten years.
const MaxRequiredDuration = 3650 * 24 * time.Hour

// CheckRequirements checks what a caller may set in requirements for a commit, which may be
// nil. field is their path in the request.
func CheckRequirements(field apierror.Field, r *adminpb.CommitRequirements) error {
	if r == nil {
		return nil
	}
	var violations []apierror.Violation
	for _, broken := range brokenRules(r) {
		violations = append(violations, apierror.Violation{Field: field + "." + broken.Field, Description: broken.Description})
	}
	if len(violations) > 0 {
		return apierror.InvalidFields(apierror.ReasonInvalidField, violations...)
	}
	return nil
}

// brokenRules are the fields of requirements that are set to what they cannot be.
func brokenRules(r *adminpb.CommitRequirements) []apierror.Violation {
	return slices.Concat(
		broken(minCounts(r), atLeastNone, countRule),
		durations(r),
		broken(maxCounts(r), atLeastNone, countRule),
		broken(shares(r), isShare, "It is a share from 0 to 1: 0.001 is 0.1 %."),
		broken(bounds(r), isBound, "It is a share above 0 and at most 1: 0.001 is 0.1 %."),
		scopes(r),
	)
}

const countRule = "It is a number, 0 or more."

func atLeastNone(n int64) bool { return n >= 0 }

// isShare and isBound do not hold of NaN.
func isShare(f float64) bool { return f >= 0 && f <= 1 }

func isBound(f float64) bool { return f > 0 && f <= 1 }

// broken are the limits that are set to a value that is not allowed.
func broken[T any](limits []limit[T], allowed func(T) bool, rule string) (out []apierror.Violation) {
	for _, l := range limits {
		if l.value != nil && !allowed(*l.value) {
			out = append(out, apierror.Violation{Field: l.name, Description: rule})
		}
	}
	return out
}

// durations checks how long an experiment has to be active.
func durations(r *adminpb.CommitRequirements) []apierror.Violation {
	d := r.GetMinDuration()
	if d == nil || d.CheckValid() == nil && d.AsDuration() >= 0 && d.AsDuration() <= MaxRequiredDuration {
		return nil
	}
	return []apierror.Violation{{
		Field: "min_duration", Description: fmt.Sprintf("It is a duration from 0s to %.0fs.", MaxRequiredDuration.Seconds()),
	}}
}

// scopes checks which pairs count.
func scopes(r *adminpb.CommitRequirements) []apierror.Violation {
	if _, known := adminpb.CommitRequirements_Scope_name[int32(r.GetScope())]; known {
		return nil
	}
	return []apierror.Violation{{Field: "scope", Description: "It is PRESENT_PAIR or ALL_PAIRS."}}
}

// limit is an optional field of requirements.
type limit[T any] struct {
	name  apierror.Field
	value *T
}

// minCounts are the numbers that there have to be.
func minCounts(r *adminpb.CommitRequirements) []limit[int64] {
	return []limit[int64]{
		{"min_request_count", &r.MinRequestCount}, {"min_caller_count", &r.MinCallerCount}, {"min_endpoint_count", &r.MinEndpointCount},
	}
}

// maxCounts are the limits on counts.
func maxCounts(r *adminpb.CommitRequirements) []limit[int64] {
	return []limit[int64]{
		{"max_newly_denied_count", r.MaxNewlyDeniedCount}, {"max_newly_allowed_count", r.MaxNewlyAllowedCount},
		{"max_response_changed_count", r.MaxResponseChangedCount}, {"max_failed_count", r.MaxFailedCount},
		{"max_dropped_count", r.MaxDroppedCount}, {"max_taken_back_count", r.MaxTakenBackCount},
		{"max_unjudged_count", r.MaxUnjudgedCount}, {"max_accepted_count", r.MaxAcceptedCount},
	}
}

// shares are the limits on shares.
func shares(r *adminpb.CommitRequirements) []limit[float64] {
	return []limit[float64]{
		{"max_newly_denied_ratio", r.MaxNewlyDeniedRatio}, {"max_newly_allowed_ratio", r.MaxNewlyAllowedRatio},
		{"max_response_changed_ratio", r.MaxResponseChangedRatio}, {"max_failed_ratio", r.MaxFailedRatio},
		{"max_dropped_ratio", r.MaxDroppedRatio},
	}
}

// bounds are the limits on what shares may be at most.
func bounds(r *adminpb.CommitRequirements) []limit[float64] {
	return []limit[float64]{
		{"max_newly_denied_bound", r.MaxNewlyDeniedBound}, {"max_newly_allowed_bound", r.MaxNewlyAllowedBound},
		{"max_newly_denied_request_bound", r.MaxNewlyDeniedRequestBound}, {"max_newly_allowed_request_bound", r.MaxNewlyAllowedRequestBound},
	}
}
