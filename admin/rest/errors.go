package rest

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"understudy/admin/apierror"
	"understudy/admin/content"
)

// invalidJSON is the error of a body that is no JSON, or not that of the call.
func invalidJSON(description string) error {
	return apierror.Invalid(apierror.ReasonInvalidJSON, "body", description)
}

// syntaxError names the byte at which a body stops being JSON.
func syntaxError(body []byte) error {
	var v any
	var syntax *json.SyntaxError
	if err := json.Unmarshal(body, &v); errors.As(err, &syntax) {
		return invalidJSON(fmt.Sprintf("The body is no JSON from byte %d on: %s.", syntax.Offset, syntax))
	}
	return invalidJSON("The body is no JSON.")
}

var quoted = regexp.MustCompile(`"[^"]*`)

// bodyError names the field in which a body differs from the API's messages.
func bodyError(err error) error {
	text := apierror.ProtoText(err)
	if strings.Contains(text, "unknown field") {
		field := apierror.Field(strings.TrimPrefix(quoted.FindString(text), `"`))
		return apierror.Invalid(apierror.ReasonUnknownField, field, "The body has a field that the API does not have: "+text+".")
	}
	return invalidJSON("The body does not fit the API: " + text + ".")
}

// unexpectedBody refuses a body where HTTP gives it no meaning: a proxy may drop it, so a
// call must not depend on it (RFC 9110, section 9.3.1).
func unexpectedBody(method string) error {
	return apierror.Invalid(apierror.ReasonUnexpectedBody, "body",
		method+" has no body. Send the fields as query parameters.")
}

// bodyTooLarge names the limit, in bytes.
func bodyTooLarge(limit int) error {
	return apierror.Invalid(apierror.ReasonBodyTooLarge, "body", fmt.Sprintf("The body is larger than %d bytes.", limit))
}

// bodyTooSlow says that nothing was changed, for the caller cannot know how far the call
// came.
func bodyTooSlow() error {
	return apierror.New(codes.DeadlineExceeded, apierror.ReasonBodyTooSlow, "The body came too slowly; nothing was changed. Send it again, on a faster link.", nil)
}

// unsupportedMediaType says what to send, and by which option of curl.
func unsupportedMediaType() error {
	return apierror.Invalid(apierror.ReasonUnsupportedMediaType, "body", "The body has to be JSON in UTF-8, without a Content-Encoding: send it with Content-Type: application/json, as `curl --json` does.")
}

// unknownParameter refuses what would be ignored: a mistyped validateOnly would make a
// change.
func unknownParameter(name string) error {
	return apierror.Invalid(apierror.ReasonUnknownParameter, apierror.Field(name),
		"The call has no such query parameter, or takes it from the path or the body.")
}

// repeatedParameter refuses what two programs read differently, of which one may
// authorize the call.
func repeatedParameter(name string) error {
	return apierror.Invalid(apierror.ReasonInvalidParameter, apierror.Field(name), "The parameter is given more than once.")
}

// twiceSpelled is repeatedParameter in two spellings, such as validateOnly and
// validate_only.
func twiceSpelled(name, other string) error {
	return apierror.Invalid(apierror.ReasonInvalidParameter, apierror.Field(name),
		"The parameter is given twice, as "+apierror.Shown(other)+" too. Send one of the two spellings.")
}

// malformedValue says what a parameter looks like; nothing of its value.
func malformedValue(name, form string) error {
	return apierror.Invalid(apierror.ReasonInvalidParameter, apierror.Field(name), cmp.Or(form, "Its value is of the wrong type."))
}

// invalidParameter repeats the text of the gateway, cut: it names the parameter and the
// type.
func invalidParameter(err error) error {
	return apierror.Invalid(apierror.ReasonInvalidParameter, "query", "A parameter has a value of the wrong type: "+apierror.Shown(err.Error())+".")
}

// carried takes a status through the gateway, which keeps of an error only its
// text.
type carried struct{ err error }

const carriedPrefix = "status:"

// Error is the status as text, which the gateway passes on as it is.
func (c carried) Error() string {
	b, err := proto.Marshal(status.Convert(c.err).Proto())
	if err != nil {
		return c.err.Error()
	}
	return carriedPrefix + base64.StdEncoding.EncodeToString(b)
}

// uncarried returns the status that was carried, or the error itself.
func uncarried(err error) *status.Status {
	if malformed := (*runtime.HTTPStatusError)(nil); errors.As(err, &malformed) && malformed.HTTPStatus == http.StatusBadRequest {
		return status.Convert(apierror.Invalid(apierror.ReasonInvalidName, "path", "The path has an escape that is not valid."))
	}
	st := status.Convert(err)
	encoded, found := strings.CutPrefix(st.Message(), carriedPrefix)
	if !found {
		return st
	}
	b, err := base64.StdEncoding.DecodeString(encoded)
	p := &statuspb.Status{}
	if err != nil || proto.Unmarshal(b, p) != nil {
		return st
	}
	return status.FromProto(p)
}

// withInfo sees to it that an error has an ErrorInfo (AIP-193).
func withInfo(err error) error {
	if err == nil {
		return nil
	}
	st := status.Convert(err)
	for _, d := range st.Details() {
		if _, ok := d.(*errdetails.ErrorInfo); ok {
			return err
		}
	}
	switch st.Code() {
	case codes.Unimplemented:
		return apierror.Unimplemented("The method")
	case codes.InvalidArgument:
		return apierror.Invalid(apierror.ReasonInvalidField, "request", st.Message())
	case codes.DeadlineExceeded:
		return apierror.New(codes.DeadlineExceeded, apierror.ReasonDeadlineExceeded, "The call ran out of time.", nil)
	case codes.Canceled:
		return apierror.New(codes.Canceled, apierror.ReasonCancelled, "The call was cancelled.", nil)
	default:
		return apierror.Internal()
	}
}

// writeError is the answer to a call that failed.
func writeError(w http.ResponseWriter, err error) {
	err = withInfo(uncarried(err).Err())
	writeStatus(w, codeOf(status.Code(err)), err)
}

// writeRoutingError is the answer to a call of nothing.
func writeRoutingError(w http.ResponseWriter, r *http.Request) {
	if methods := apiRoutes.allowed(r.URL.EscapedPath()); len(methods) > 0 {
		allow, method := strings.Join(methods, ", "), apierror.Shown(r.Method)
		w.Header().Set("Allow", allow)
		writeStatus(w, http.StatusMethodNotAllowed, apierror.New(codes.Unimplemented, apierror.ReasonMethodNotAllowed,
			fmt.Sprintf("The path has no method %s. It has %s.", method, allow),
			apierror.Facts{"method": method, "allow": allow}))
		return
	}
	path := apierror.Shown(r.URL.EscapedPath())
	writeStatus(w, http.StatusNotFound, apierror.New(codes.NotFound, apierror.ReasonUnknownPath,
		fmt.Sprintf("There is nothing at '%s'. The document at /openapi.json has all paths.", path),
		apierror.Facts{"path": path}, &errdetails.ResourceInfo{ResourceType: "path", ResourceName: path}))
}

// envelope is the JSON of an error (AIP-193).
type envelope struct {
	Error struct {
		Code    int               `json:"code"`
		Message string            `json:"message"`
		Status  string            `json:"status"`
		Details []json.RawMessage `json:"details"`
	} `json:"error"`
}

// writeStatus sends an error in its envelope. The HTTP code is not always that of the
// status: 405, 408, 413 and 415 have no code of gRPC.
func writeStatus(w http.ResponseWriter, httpCode int, err error) {
	st := status.Convert(err)
	var e envelope
	e.Error.Code = httpCode
	e.Error.Message = st.Message()
	e.Error.Status = code.Code(st.Code()).String()
	for _, detail := range st.Proto().GetDetails() {
		if text, err := protojson.Marshal(detail); err == nil {
			e.Error.Details = append(e.Error.Details, text)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(httpCode)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false) // people read requests>=1000; it is nothing to a browser, as nosniff says
	_ = encoder.Encode(e)
}

// checkNumbers is CheckExact of the body of a call, which is a field of the request.
func checkNumbers(field string, body []byte) error {
	inexact := (*content.InexactNumber)(nil)
	if !errors.As(content.CheckExact(field, body), &inexact) {
		return nil
	}
	return apierror.Invalid(apierror.ReasonInvalidField, apierror.Field(apierror.Shown(inexact.Path)), fmt.Sprintf(
		"The number %s is not kept exactly: numbers are doubles (google.protobuf.Value). Write it as a string, and compare it as one.",
		apierror.Shown(inexact.Number)))
}
