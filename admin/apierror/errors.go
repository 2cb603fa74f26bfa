package apierror

import (
	"fmt"
	"strconv"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"understudy/admin/aip"
	adminpb "understudy/admin/v1"
)

// Facts are the dynamic parts of an error's message, by name (AIP-193).
type Facts map[string]string

// New makes a status with one ErrorInfo and further details.
func New(
	code codes.Code, why Reason, message string, about Facts, details ...protoadapt.MessageV1,
) error {
	info := &errdetails.ErrorInfo{Reason: string(why), Domain: adminpb.ErrorDomain, Metadata: about}
	s, err := status.New(code, message).WithDetails(append([]protoadapt.MessageV1{info}, details...)...)
	if err != nil {
		return status.Error(code, message)
	}
	return s.Err()
}

// Field is the path of a field in a request, in snake_case; of the other places of a request, such
// as its body or a parameter, the name.
type Field string

// Violation is one thing that is wrong with a request.
type Violation struct {
	// Field is what is wrong.
	Field Field
	// Description says which rule is broken and how to fix it.
	Description string
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

// Invalid is INVALID_ARGUMENT of one field: its path in the request, which rule is broken
// and how to fix it.
func Invalid(why Reason, field Field, description string) error {
	return InvalidFields(why, Violation{field, description})
}

// InvalidFields is INVALID_ARGUMENT with a BadRequest that names the first fields, of which
// there has to be one; the message has the number of all others.
func InvalidFields(why Reason, violations ...Violation) error {
	bad := &errdetails.BadRequest{}
	size := 0
	for i, v := range violations {
		field, description := Shown(string(v.Field)), aip.Cut(v.Description, maxDescription)
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
	about := Facts{"field": first.Field, "description": first.Description}
	if more := len(violations) - 1; more > 0 {
		message += fmt.Sprintf(" (and %d more)", more)
		about["more"] = strconv.Itoa(more)
	}
	return New(codes.InvalidArgument, why, message, about, bad)
}

// Required is the error of an absent field that has to be there (AIP-203).
func Required(field Field, fix string) error {
	return Invalid(ReasonRequired, field, "The field is required. "+fix)
}

// InvalidName is INVALID_ARGUMENT of a resource name or a path.
func InvalidName(field Field, description string) error {
	return Invalid(ReasonInvalidName, field, description)
}

// Unimplemented is UNIMPLEMENTED of what the API describes and this version does
// not do.
func Unimplemented(what string) error {
	return New(codes.Unimplemented, ReasonUnimplemented,
		fmt.Sprintf("%s is not implemented by this version.", what), Facts{"what": what})
}

// Internal is the error of a defect. Its cause is for the log.
func Internal() error {
	return New(codes.Internal, ReasonInternal, "An internal error occurred. The server's log has its cause.", nil)
}
