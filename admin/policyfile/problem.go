package policyfile

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"understudy/authz"
)

// Problem is an error for callers, in the shape of Chef's server: {"error":["text"]}.
type Problem struct {
	// Status is that of HTTP.
	Status int
	Texts  []string
	// cause is the error of the domain that it says in other words; nil if there is none. The
	// audit log has its code and its reason.
	cause error
	// alone writes the text without a list around it: {"error":"text"}.
	alone bool
}

// Error joins the texts, for logs and for commands that print one line.
func (p *Problem) Error() string { return strings.Join(p.Texts, "; ") }

// problem is an error with one text.
func problem(status int, text string) *Problem {
	return &Problem{Status: status, Texts: []string{text}}
}

// because adds the error of the domain that a problem says in other words.
func (p *Problem) because(cause error) *Problem {
	p.cause = cause
	return p
}

// details are those of a PERMISSION_DENIED that is the cause, each as JSON.
func (p *Problem) details() (out []json.RawMessage) {
	if p.Status != http.StatusForbidden {
		return nil
	}
	for _, detail := range status.Convert(p.cause).Proto().GetDetails() {
		if text, err := protojson.Marshal(detail); err == nil {
			out = append(out, text)
		}
	}
	return out
}

// statuses :: code of the domain → status of HTTP. A state that forbids a change is a
// conflict here.
var statuses = map[codes.Code]int{
	codes.InvalidArgument:    http.StatusBadRequest,
	codes.Unauthenticated:    http.StatusUnauthorized,
	codes.PermissionDenied:   http.StatusForbidden,
	codes.NotFound:           http.StatusNotFound,
	codes.AlreadyExists:      http.StatusConflict,
	codes.FailedPrecondition: http.StatusConflict,
	codes.Aborted:            http.StatusConflict,
	codes.ResourceExhausted:  http.StatusTooManyRequests,
	codes.Unavailable:        http.StatusServiceUnavailable,
	codes.DeadlineExceeded:   http.StatusGatewayTimeout,
	codes.Canceled:           http.StatusServiceUnavailable,
	codes.Internal:           http.StatusInternalServerError,
}

// problemOf turns any error into that of the API. What is no error for callers says
// nothing of itself.
func problemOf(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	st, ok := status.FromError(err)
	code := statuses[st.Code()]
	if !ok || code == 0 {
		return problem(http.StatusInternalServerError, "internal service error")
	}
	if texts := violations(st); len(texts) > 0 {
		return &Problem{Status: code, Texts: texts}
	}
	return problem(code, st.Message())
}

// violations says what is wrong with fields, by the names that they have in this API.
func violations(st *status.Status) (texts []string) {
	for _, d := range st.Details() {
		bad, ok := d.(*errdetails.BadRequest)
		if !ok {
			continue
		}
		for _, v := range bad.FieldViolations {
			texts = append(texts, "Field '"+fieldOf(v.Field)+"' invalid : "+v.Description)
		}
	}
	return texts
}

// fieldOf translates the path of a field of the admin API. What a lock consists of is one
// policy there, of which clients of this API know only the run list and the cookbooks.
func fieldOf(field string) string {
	switch {
	case field == "config.next_location":
		return "next_group_name"
	case strings.HasPrefix(field, "lock.rules"):
		return "run_list"
	case strings.HasPrefix(field, "lock"):
		return "cookbook_locks"
	}
	return field
}

// orMissing gives NOT_FOUND a text of this API.
func orMissing(err error, text string) error {
	if status.Code(err) == codes.NotFound {
		return problem(http.StatusNotFound, text).because(err)
	}
	return err
}

// missing returns the ID of the resource that NOT_FOUND or FAILED_PRECONDITION is about.
func missing(err error) string {
	for _, d := range status.Convert(err).Details() {
		name := ""
		switch about := d.(type) {
		case *errdetails.ResourceInfo:
			name = about.ResourceName
		case *errdetails.PreconditionFailure:
			name = about.Violations[0].Subject
		}
		if name != "" {
			return authz.ResourceName(name).ID()
		}
	}
	return ""
}
