package content

import (
	"fmt"
	"math"
	"time"

	"understudy/admin/apierror"
	adminpb "understudy/admin/v1"
)

// MaxRequiredDuration bounds min_duration: ten years.
const MaxRequiredDuration = 3650 * 24 * time.Hour

// CheckRequirements checks what a caller may set in requirements for a commit, which may be
// nil. field is their path in the request.
func CheckRequirements(field string, r *adminpb.CommitRequirements) error {
	if r == nil {
		return nil
	}
	var violations []apierror.Violation
	add := func(name, description string) {
		violations = append(violations, apierror.Violation{Field: field + "." + name, Description: description})
	}
	for _, c := range minCounts(r) {
		if *c.value < 0 {
			add(c.name, countRule)
		}
	}
	if d := r.GetMinDuration(); d != nil && (d.CheckValid() != nil || d.AsDuration() < 0 || d.AsDuration() > MaxRequiredDuration) {
		add("min_duration", fmt.Sprintf("It is a duration from 0s to %.0fs.", MaxRequiredDuration.Seconds()))
	}
	for _, c := range maxCounts(r) {
		if c.value != nil && *c.value < 0 {
			add(c.name, countRule)
		}
	}
	for _, s := range shares(r) {
		if s.value != nil && (math.IsNaN(*s.value) || *s.value < 0 || *s.value > 1) {
			add(s.name, "It is a share from 0 to 1: 0.001 is 0.1 %.")
		}
	}
	if _, known := adminpb.CommitRequirements_Scope_name[int32(r.GetScope())]; !known {
		add("scope", "It is PRESENT_PAIR or ALL_PAIRS.")
	}
	if len(violations) > 0 {
		return apierror.InvalidFields(apierror.ReasonInvalidField, violations...)
	}
	return nil
}

const countRule = "It is a number, 0 or more."

// limit is an optional field of requirements.
type limit[T any] struct {
	name  string
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
		{"max_dropped_count", r.MaxDroppedCount},
	}
}

// shares are the limits on shares.
func shares(r *adminpb.CommitRequirements) []limit[float64] {
	return []limit[float64]{
		{"max_newly_denied_ratio", r.MaxNewlyDeniedRatio}, {"max_newly_allowed_ratio", r.MaxNewlyAllowedRatio},
		{"max_response_changed_ratio", r.MaxResponseChangedRatio}, {"max_failed_ratio", r.MaxFailedRatio},
		{"max_dropped_ratio", r.MaxDroppedRatio}, {"min_changed_rule_coverage", r.MinChangedRuleCoverage},
	}
}
