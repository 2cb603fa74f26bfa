package content

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"understudy/admin/apierror"
	adminpb "understudy/admin/v1"
)

const (
	// maxReason bounds why a group was accepted, in characters.
	maxReason = 256
	// groupIDPattern is the grammar of the IDs of groups of differences.
	groupIDPattern = `^[0-9a-f]{20}$`
)

var groupID = regexp.MustCompile(groupIDPattern)

// CheckAcceptance checks what a caller may set in an acceptance. field is its path in the
// request.
func CheckAcceptance(field string, a *adminpb.Acceptance) error {
	switch {
	case a.GetTarget() == nil:
		return apierror.Required(field+".group_id", "It is the group_id of a difference in the report.")
	case strings.TrimSpace(a.GetReason()) == "":
		return apierror.Required(field+".reason", "It says to others why the difference is as it should be.")
	case a.GetExperimentEtag() == "":
		return apierror.Invalid(apierror.ReasonEtagRequired, field+".experiment_etag",
			"An acceptance requires the experiment_etag of the report that was looked at.")
	}
	var wrong []apierror.Violation
	if !groupID.MatchString(a.GetGroupId()) {
		wrong = append(wrong, apierror.Violation{Field: field + ".group_id", Description: "It has 20 hexadecimal digits."})
	}
	if n := utf8.RuneCountInString(a.GetReason()); n > maxReason {
		wrong = append(wrong, apierror.Violation{Field: field + ".reason", Description: fmt.Sprintf(
			"The reason has %d characters; the limit is %d.", n, maxReason)})
	}
	wrong = append(wrong, checkMost(field+".max_request_count", a.GetMaxRequestCount())...)
	wrong = append(wrong, checkMost(field+".max_caller_count", a.GetMaxCallerCount())...)
	if len(wrong) > 0 {
		return apierror.InvalidFields(apierror.ReasonInvalidField, wrong...)
	}
	return nil
}

// checkMost checks a limit of an acceptance; 0 is the default.
func checkMost(field string, n int64) []apierror.Violation {
	if n < 0 {
		return []apierror.Violation{{Field: field, Description: "It is at least 1; 0 is the default."}}
	}
	return nil
}

// OfAcceptance returns a copy of the acceptance's user-settable fields.
func OfAcceptance(a *adminpb.Acceptance) *adminpb.Acceptance {
	return &adminpb.Acceptance{
		Target: a.GetTarget(), Reason: a.GetReason(), ExperimentEtag: a.GetExperimentEtag(), PolicyEtag: a.GetPolicyEtag(),
		MaxRequestCount: a.GetMaxRequestCount(), MaxCallerCount: a.GetMaxCallerCount(),
	}
}
