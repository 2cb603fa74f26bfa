package apierror

import (
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	adminpb "understudy/admin/v1"
)

// Resource is what an error is about.
type Resource interface {
	// Type is the type of google.api.resource; empty if it has none.
	Type() string
	// String is the name.
	String() string
}

// NotFound is NOT_FOUND of a resource.
func NotFound(about Resource) error {
	return New(codes.NotFound, ReasonNotFound,
		fmt.Sprintf("Resource '%s' was not found.", about),
		Facts{"resource": about.String()},
		&errdetails.ResourceInfo{ResourceType: about.Type(), ResourceName: about.String()})
}

// IsNotFound reports whether err is that of a resource that is not there.
func IsNotFound(err error) bool { return status.Code(err) == codes.NotFound }

// AlreadyExists is ALREADY_EXISTS of a resource. The hint says what to do.
func AlreadyExists(about Resource, why Reason, hint string) error {
	return New(codes.AlreadyExists, why,
		fmt.Sprintf("Resource '%s' already exists. %s", about, hint),
		Facts{"resource": about.String(), "hint": hint},
		&errdetails.ResourceInfo{ResourceType: about.Type(), ResourceName: about.String()})
}

// Versions are the version of a resource that a caller expects, and the one that there is.
type Versions struct {
	// Given is as the caller wrote it, and Current as the resource has it.
	Given, Current string
}

// EtagMismatch is ABORTED of a resource that is not the version that the caller
// expects (AIP-154).
func EtagMismatch(about Resource, why Reason, etags Versions) error {
	given, current := Shown(etags.Given), etags.Current
	return New(codes.Aborted, why,
		fmt.Sprintf("The etag '%s' is not that of '%s', which is '%s'. Read the resource again.", given, about, current),
		Facts{"resource": about.String(), "etag": given, "currentEtag": current})
}

// MissingAborted is ABORTED of an update that expects an etag of a resource that
// is not there (AIP-134).
func MissingAborted(about Resource, given string) error {
	given = Shown(given)
	return New(codes.Aborted, ReasonEtagMismatch,
		fmt.Sprintf("The etag '%s' was given, but '%s' does not exist. Leave the etag out to create it.", given, about),
		Facts{"resource": about.String(), "etag": given})
}

// ExistsAborted is ABORTED of a call that expects that a resource is not there, since it
// gives no etag of it.
func ExistsAborted(about Resource, current string) error {
	return New(codes.Aborted, ReasonEtagMismatch,
		fmt.Sprintf("No etag was given of '%s', which exists and has '%s'. Read it, and give the etag of what you have seen.", about, current),
		Facts{"resource": about.String(), "currentEtag": current})
}

// RevisionNotLive is ABORTED of a policy of which another revision is live than the caller
// expects.
func RevisionNotLive(about Resource, revisions Versions) error {
	given, current := Shown(revisions.Given), revisions.Current
	return New(codes.Aborted, ReasonRevisionNotLive,
		fmt.Sprintf("The revision '%s' is not live: that of '%s' is '%s'. Read the policy again.", given, about, current),
		Facts{"resource": about.String(), "revision": given, "currentRevision": current})
}

// ConcurrentChange is ABORTED of a call that lost too many races.
func ConcurrentChange(about Resource) error {
	return New(codes.Aborted, ReasonConcurrentChange,
		fmt.Sprintf("Resource '%s' is being changed by others. Try again.", about),
		Facts{"resource": about.String()})
}

// Precondition is FAILED_PRECONDITION of a resource in the wrong state.
func Precondition(about Resource, why Reason, description string) error {
	return New(codes.FailedPrecondition, why,
		fmt.Sprintf("Resource '%s': %s", about, description),
		Facts{"resource": about.String(), "description": description},
		&errdetails.PreconditionFailure{Violations: []*errdetails.PreconditionFailure_Violation{{
			Type: string(why), Subject: about.String(), Description: description,
		}}})
}

// maxNamedUnmet is the number of requirements that a message names; the details have all.
const maxNamedUnmet = 3

// RequirementsNotMet is FAILED_PRECONDITION of an experiment whose report does not show what a
// commit requires, or a promotion of its content. There is a violation for each requirement that is not met, of which there
// has to be one; its subject is the requirement.
func RequirementsNotMet(about Resource, unmet []*adminpb.Report_RequirementResult) error {
	failure := &errdetails.PreconditionFailure{}
	var named []string
	for _, r := range unmet {
		description := fmt.Sprintf("have %s, need %s (required by the %s)", r.GetHave(), r.GetNeed(), requirer(r))
		if r.GetUnreachable() {
			description += "; more traffic cannot change that"
		}
		failure.Violations = append(failure.Violations, &errdetails.PreconditionFailure_Violation{
			Type: string(ReasonRequirementsNotMet), Subject: r.GetRequirement(), Description: description,
		})
		if len(named) < maxNamedUnmet {
			named = append(named, fmt.Sprintf("%s (have %s, need %s)", r.GetRequirement(), r.GetHave(), r.GetNeed()))
		}
	}
	text := strings.Join(named, "; ")
	if more := len(unmet) - len(named); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return New(codes.FailedPrecondition, ReasonRequirementsNotMet,
		fmt.Sprintf("Resource '%s': its report does not show what is required: %s. Nothing was changed; its report has the details.",
			about, text),
		Facts{"resource": about.String(), "requirements": text, "count": strconv.Itoa(len(unmet))}, failure)
}

// requirer says where a requirement comes from.
func requirer(r *adminpb.Report_RequirementResult) string {
	if r.GetSource() == adminpb.Report_RequirementResult_LOCATION {
		return "location"
	}
	return "call"
}
