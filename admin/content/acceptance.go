package content

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"understudy/admin/apierror"
	adminpb "understudy/admin/v1"
)

const (
	// maxReason bounds why something was accepted, in characters.
	maxReason = 256
	// targetIDPattern is the grammar of the IDs of groups of differences and of items.
	targetIDPattern = `^[0-9a-f]{20}$`
)

var targetID = regexp.MustCompile(targetIDPattern)

// CheckAcceptance checks what a caller may set in an acceptance. field is its path in the
// request.
func CheckAcceptance(field apierror.Field, a *adminpb.Acceptance) error {
	switch {
	case a.GetTarget() == nil:
		return apierror.Required(field+".group_id", "It is the group_id of a difference in the report. Instead, item_id may be that of an item.")
	case strings.TrimSpace(a.GetReason()) == "":
		return apierror.Required(field+".reason", "It says to others why that is as it should be.")
	case !isReason(a.GetReason()):
		return apierror.Invalid(apierror.ReasonInvalidField, field+".reason", fmt.Sprintf(
			"A reason says more than %q: others will read it. Write why that is as it should be, such as \"a scanner: it never had access\".", a.GetReason()))
	case a.GetExperimentEtag() == "":
		return apierror.Invalid(apierror.ReasonEtagRequired, field+".experiment_etag",
			"An acceptance requires the experiment_etag of the report that was looked at.")
	}
	var wrong []apierror.Violation
	wrong = append(wrong, checkTarget(field, a)...)
	if n := utf8.RuneCountInString(a.GetReason()); n > maxReason {
		wrong = append(wrong, apierror.Violation{Field: field + ".reason", Description: fmt.Sprintf(
			"The reason has %d characters; the limit is %d.", n, maxReason)})
	}
	_, ofItem := a.GetTarget().(*adminpb.Acceptance_ItemId)
	wrong = append(wrong, checkMost(field+".max_request_count", a.GetMaxRequestCount(), ofItem)...)
	wrong = append(wrong, checkMost(field+".max_caller_count", a.GetMaxCallerCount(), ofItem)...)
	if len(wrong) > 0 {
		return apierror.InvalidFields(apierror.ReasonInvalidField, wrong...)
	}
	return nil
}

// noReasons are the answers to a prompt that was not read.
var noReasons = []string{"", "y", "yes", "ok", "okay", "n", "no"}

// isReason reports whether a text may say why something is as it should be: it has a letter or a digit, and
// is more than an answer to whether it is so.
func isReason(text string) bool {
	said := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return !slices.Contains(noReasons, strings.Join(said, " "))
}

// checkTarget checks the ID of what is accepted.
func checkTarget(field apierror.Field, a *adminpb.Acceptance) []apierror.Violation {
	name, id := apierror.Field(".group_id"), a.GetGroupId()
	if of, item := a.GetTarget().(*adminpb.Acceptance_ItemId); item {
		name, id = ".item_id", of.ItemId
	}
	if targetID.MatchString(id) {
		return nil
	}
	return []apierror.Violation{{Field: field + name, Description: "It has 20 hexadecimal digits."}}
}

// checkMost checks a limit of an acceptance; 0 is the default.
func checkMost(field apierror.Field, n int64, ofItem bool) []apierror.Violation {
	switch {
	case n != 0 && ofItem:
		return []apierror.Violation{{Field: field, Description: "It goes with a group_id: no request has shown the item. Leave it out."}}
	case n < 0:
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
