package admin

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"understudy/admin/aip"
)

// errorDomain is the domain of every ErrorInfo of this API (AIP-193).
const errorDomain = "understudy.internal"

// reason is a machine-readable reason of an error (AIP-193). A client may rely on
// it; a value, once published, keeps its meaning.
type reason string

// The reasons of the services. Those of the REST edge stand in rest_errors.go.
const (
	reasonNotFound           reason = "RESOURCE_NOT_FOUND"
	reasonAlreadyExists      reason = "RESOURCE_ALREADY_EXISTS"
	reasonRequired           reason = "REQUIRED_FIELD"
	reasonInvalidName        reason = "INVALID_NAME"
	reasonInvalidID          reason = "INVALID_ID"
	reasonInvalidField       reason = "INVALID_FIELD"
	reasonImmutable          reason = "IMMUTABLE_FIELD"
	reasonInvalidAnnotation  reason = "INVALID_ANNOTATION"
	reasonInvalidPolicy      reason = "INVALID_POLICY"
	reasonTestsFailed        reason = "TESTS_FAILED"
	reasonPolicyTooLarge     reason = "POLICY_TOO_LARGE"
	reasonPolicyNameMismatch reason = "POLICY_NAME_MISMATCH"
	reasonInvalidFilter      reason = "INVALID_FILTER"
	reasonInvalidOrderBy     reason = "INVALID_ORDER_BY"
	reasonInvalidPageSize    reason = "INVALID_PAGE_SIZE"
	reasonInvalidPageToken   reason = "INVALID_PAGE_TOKEN"
	reasonInvalidUpdateMask  reason = "INVALID_UPDATE_MASK"
	reasonEtagRequired       reason = "ETAG_REQUIRED"
	reasonEtagMismatch       reason = "ETAG_MISMATCH"
	reasonParentEtagMismatch reason = "PARENT_ETAG_MISMATCH"
	reasonConcurrentChange   reason = "CONCURRENT_CHANGE"
	reasonPolicyDeleted      reason = "POLICY_DELETED"
	reasonPolicyNotDeleted   reason = "POLICY_NOT_DELETED"
	reasonPreviewNotStarted  reason = "PREVIEW_NOT_STARTED"
	reasonExperimentLimit    reason = "EXPERIMENT_LIMIT"
	reasonNoNextLocation     reason = "NO_NEXT_LOCATION"
	reasonRevisionActive     reason = "REVISION_ACTIVE"
	reasonNoOpLock           reason = "NO_OP_LOCK"
	reasonNodeFailed         reason = "NODE_FAILED"
	reasonDamaged            reason = "RESOURCE_DAMAGED"
	reasonUnimplemented      reason = "METHOD_UNIMPLEMENTED"
	reasonStoreUnavailable   reason = "STORE_UNAVAILABLE"
	reasonOutcomeUnknown     reason = "OUTCOME_UNKNOWN"
	reasonDeadlineExceeded   reason = "DEADLINE_EXCEEDED"
	reasonCancelled          reason = "CANCELLED"
	reasonInternal           reason = "INTERNAL"
)

// facts are the dynamic parts of an error's message, by name (AIP-193).
type facts map[string]string

// fail makes a status with one ErrorInfo and further details.
func fail(
	code codes.Code, why reason, message string, about facts, details ...protoadapt.MessageV1,
) error {
	info := &errdetails.ErrorInfo{Reason: string(why), Domain: errorDomain, Metadata: about}
	s, err := status.New(code, message).WithDetails(append([]protoadapt.MessageV1{info}, details...)...)
	if err != nil {
		return status.Error(code, message)
	}
	return s.Err()
}

// violation is one thing that is wrong with a request.
type violation struct {
	// field is the path of the field in the request, in snake_case.
	field string
	// description says which rule is broken and how to mend it.
	description string
}

const (
	// maxViolations, maxDescription and maxViolationsSize bound what an error says of the
	// fields, the sizes in bytes. Message and details travel in the metadata of gRPC, of
	// which C++ and Python take 8 KiB: the first description is there four times, in
	// base64 or with escapes.
	maxViolations     = 10
	maxDescription    = 600
	maxViolationsSize = 2400
)

// invalid is INVALID_ARGUMENT with a BadRequest that names the first fields; the message
// has the number of all others.
func invalid(why reason, violations ...violation) error {
	bad := &errdetails.BadRequest{}
	size := 0
	for i, v := range violations {
		field, description := shown(v.field), aip.Cut(v.description, maxDescription)
		size += len(field) + len(description)
		if i == maxViolations || i > 0 && size > maxViolationsSize {
			break
		}
		bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{
			Field: field, Description: description, Reason: string(why),
		})
	}
	first := bad.FieldViolations[0]
	message := fmt.Sprintf("Invalid field '%s': %s", first.Field, first.Description)
	about := facts{"field": first.Field, "description": first.Description}
	if more := len(violations) - 1; more > 0 {
		message += fmt.Sprintf(" (and %d more)", more)
		about["more"] = strconv.Itoa(more)
	}
	return fail(codes.InvalidArgument, why, message, about, bad)
}

// required is the error of an absent field that has to be there (AIP-203).
func required(field, mend string) error {
	return invalid(reasonRequired, violation{field, "The field is required. " + mend})
}

// notFound is NOT_FOUND of a resource.
func notFound(name Key) error {
	return fail(codes.NotFound, reasonNotFound,
		fmt.Sprintf("Resource '%s' was not found.", name),
		facts{"resource": string(name)},
		&errdetails.ResourceInfo{ResourceType: typeOf(name), ResourceName: string(name)})
}

// unknownService is NOT_FOUND of a service whose health was asked for, as the protocol of
// gRPC's health checks has it.
func unknownService(name string) error {
	name = shown(name)
	return fail(codes.NotFound, reasonNotFound,
		fmt.Sprintf("The server has no service '%s'. An empty name asks for the server itself.", name),
		facts{"resource": name}, &errdetails.ResourceInfo{ResourceType: "service", ResourceName: name})
}

// isNotFound reports whether err is that of a resource that is not there.
func isNotFound(err error) bool { return status.Code(err) == codes.NotFound }

// alreadyExists is ALREADY_EXISTS of a resource. The hint says what to do.
func alreadyExists(name Key, why reason, hint string) error {
	return fail(codes.AlreadyExists, why,
		fmt.Sprintf("Resource '%s' already exists. %s", name, hint),
		facts{"resource": string(name), "hint": hint},
		&errdetails.ResourceInfo{ResourceType: typeOf(name), ResourceName: string(name)})
}

// etagMismatch is ABORTED of a resource that is not the version that the caller
// expects (AIP-154).
func etagMismatch(name Key, why reason, given, current string) error {
	given = shown(given)
	return fail(codes.Aborted, why,
		fmt.Sprintf("The etag '%s' is not that of '%s', which is '%s'. Read the resource again.", given, name, current),
		facts{"resource": string(name), "etag": given, "currentEtag": current})
}

// missingAborted is ABORTED of an update that expects an etag of a resource that
// is not there (AIP-134).
func missingAborted(name Key, given string) error {
	given = shown(given)
	return fail(codes.Aborted, reasonEtagMismatch,
		fmt.Sprintf("The etag '%s' was given, but '%s' does not exist. Leave the etag out to create it.", given, name),
		facts{"resource": string(name), "etag": given})
}

// concurrentChange is ABORTED of a call that lost too many races.
func concurrentChange(name Key) error {
	return fail(codes.Aborted, reasonConcurrentChange,
		fmt.Sprintf("Resource '%s' is being changed by others. Try again.", name),
		facts{"resource": string(name)})
}

// precondition is FAILED_PRECONDITION of a resource in the wrong state.
func precondition(name Key, why reason, description string) error {
	return fail(codes.FailedPrecondition, why,
		fmt.Sprintf("Resource '%s': %s", name, description),
		facts{"resource": string(name), "description": description},
		&errdetails.PreconditionFailure{Violations: []*errdetails.PreconditionFailure_Violation{{
			Type: string(why), Subject: string(name), Description: description,
		}}})
}

// policyDeleted is FAILED_PRECONDITION of a soft-deleted policy.
func policyDeleted(name Key) error {
	return precondition(name, reasonPolicyDeleted, "The policy is deleted. Undelete it first.")
}

// damaged is DATA_LOSS of a resource that is stored and cannot be read. The cause is for
// the log.
func (s *Server) damaged(ctx context.Context, name Key, cause error) error {
	s.log.ErrorContext(ctx, "a stored record cannot be read", "resource", string(name), "error", cause)
	hint := damageHints[typeOf(name)]
	return fail(codes.DataLoss, reasonDamaged,
		fmt.Sprintf("Resource '%s' is stored, but its record cannot be read: it was damaged, or written by another version. %s", name, hint),
		facts{"resource": string(name), "hint": hint},
		&errdetails.ResourceInfo{ResourceType: typeOf(name), ResourceName: string(name)})
}

const replaceOrDelete = "Delete it, which is for good, or replace all of it by an update with the update_mask `*`."

// damageHints say what to do, by type of resource.
var damageHints = map[string]string{
	policyKind.resourceType: "Delete it, which is for good, replace all of it by an update with the update_mask `*`, " +
		"or roll it back to a revision.",
	experimentKind.resourceType: replaceOrDelete,
	configKind.resourceType:     "Replace all of it by an update with the update_mask `*`.",
	revisionKind.resourceType:   "It goes when its policy is purged or deleted for good, and is stored again when its content becomes live.",
	operationKind.resourceType:  "Delete it; what it was about is done or not done all the same.",
}

// noNextLocation is FAILED_PRECONDITION of a location that policies cannot be
// promoted from.
func noNextLocation(config Key) error {
	return precondition(config, reasonNoNextLocation,
		"It names no next_location to promote to. Update it with one first.")
}

// experimentLimit is RESOURCE_EXHAUSTED of a policy with all the experiments it
// may have (AIP-236).
func experimentLimit(policy Key) error {
	limit := strconv.Itoa(maxExperiments)
	return fail(codes.ResourceExhausted, reasonExperimentLimit,
		fmt.Sprintf("Policy '%s' has %s experiments, the most it may have. Delete or commit one first.", policy, limit),
		facts{"resource": string(policy), "limit": limit},
		&errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{
			Subject: string(policy), Description: "At most " + limit + " experiments for a policy.",
		}}})
}

// unimplemented is UNIMPLEMENTED of what the API describes and this version does
// not do.
func unimplemented(what string) error {
	return fail(codes.Unimplemented, reasonUnimplemented,
		fmt.Sprintf("%s is not implemented by this version.", what), facts{"what": what})
}

// storeFailed turns an error of the store into a status. It names no technology
// and, as UNAVAILABLE invites a retry, uses it only where nothing was written
// (AIP-194).
func (s *Server) storeFailed(ctx context.Context, doing string, err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fail(codes.DeadlineExceeded, reasonDeadlineExceeded, "The call ran out of time.", nil)
	case errors.Is(err, context.Canceled):
		return fail(codes.Canceled, reasonCancelled, "The call was cancelled.", nil)
	}
	s.log.ErrorContext(ctx, "the store failed", "doing", doing, "error", err)
	switch {
	case errors.Is(err, ErrUnavailable):
		return fail(codes.Unavailable, reasonStoreUnavailable,
			"The store of policies cannot be reached; nothing was changed. Try again later.", nil)
	case errors.Is(err, ErrOutcomeUnknown):
		return fail(codes.Internal, reasonOutcomeUnknown,
			"The store of policies was lost during the change, which was made as a whole or not at all. "+
				"Read the resource to see which.", nil)
	default:
		return internal()
	}
}

// internal is the error of a defect. Its cause is for the log.
func internal() error {
	return fail(codes.Internal, reasonInternal, "An internal error occurred. The server's log has its cause.", nil)
}

// shown is a text of the caller's as errors repeat it.
func shown(text string) string { return aip.Shown(text) }
