package extauthz

import (
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"understudy/authz"
)

// respond returns the response of a decision. A denial has its ID in a header, if that
// has a name. The error says what of the decision Envoy could not be sent.
func respond(id string, d authz.Decision, idHeader string) (*authv3.CheckResponse, error) {
	if err := sendable(d); err != nil {
		return nil, err
	}
	metadata, err := metadataFor(id, d)
	if err != nil {
		return nil, err
	}
	response := &authv3.CheckResponse{
		Status:          &rpcstatus.Status{Code: int32(codes.PermissionDenied)},
		DynamicMetadata: metadata,
	}
	if d.Effect == authz.Allow {
		response.Status.Code = int32(codes.OK)
	}
	switch {
	// A plain decision has no edits and no body: without an HttpResponse Envoy allows,
	// or denies with 403. Most decisions are plain.
	case d.Plain && (d.Effect == authz.Allow || idHeader == ""):
	case d.Effect == authz.Allow:
		response.HttpResponse = &authv3.CheckResponse_OkResponse{OkResponse: okResponse(d)}
	default:
		response.HttpResponse = &authv3.CheckResponse_DeniedResponse{DeniedResponse: deniedResponse(id, d, idHeader)}
	}
	return response, nil
}

func okResponse(d authz.Decision) *authv3.OkHttpResponse {
	return &authv3.OkHttpResponse{
		Headers:                 upstreamHeaders(d.Headers),
		HeadersToRemove:         d.RemoveHeaders,
		ResponseHeadersToAdd:    addedHeaders(d.ResponseHeaders),
		QueryParametersToSet:    queryParameters(d.SetQuery),
		QueryParametersToRemove: d.RemoveQuery,
	}
}

// deniedResponse has the decision ID last, and once: a policy may have set a header of
// that name.
func deniedResponse(id string, d authz.Decision, idHeader string) *authv3.DeniedHttpResponse {
	headers := d.Headers
	if undecidable(d.Failure) {
		headers = []authz.Field{{Name: "retry-after", Value: retryAfter}}
	}
	if idHeader != "" {
		own := func(f authz.Field) bool { return strings.EqualFold(f.Name, idHeader) }
		headers = append(slices.DeleteFunc(slices.Clone(headers), own), authz.Field{Name: idHeader, Value: id})
	}
	return &authv3.DeniedHttpResponse{
		Status:  &typev3.HttpStatus{Code: denialStatus(d)},
		Headers: replacingHeaders(headers),
		Body:    validText(denialBody(d)),
	}
}

// retryAfter is what a caller has to wait if no decision is possible now, in seconds.
const retryAfter = "1"

// undecidable reports whether a failure says nothing about policy and request, but that
// no decision is possible here now. It is a denial all the same, which no failure_mode_allow
// turns into an allow, but one with 503: a caller takes 403 for the decision of a policy.
func undecidable(f authz.Failure) bool {
	return f == authz.FailureNotReady || f == authz.FailureOverloaded
}

// requestParseError begins the body of a denial of a request that does not parse, as it
// does with opa-envoy-plugin.
const requestParseError = "request_parse_error: "

// denialBody returns what the client reads: the policy's text, or what it sent that does
// not parse. Such a reason quotes nothing of the request.
func denialBody(d authz.Decision) string {
	if d.Failure.OfRequest() && d.Body == "" {
		return requestParseError + d.Reason
	}
	return d.Body
}

// denialStatus returns the status of a denial: 403 unless the decision has one
// that Envoy knows, or no decision was possible.
func denialStatus(d authz.Decision) typev3.StatusCode {
	_, known := typev3.StatusCode_name[int32(min(d.HTTPStatus, 1000))]
	switch {
	case undecidable(d.Failure):
		return typev3.StatusCode_ServiceUnavailable
	case d.HTTPStatus > 0 && known:
		return typev3.StatusCode(d.HTTPStatus)
	case d.Failure.OfRequest():
		return typev3.StatusCode_BadRequest
	}
	return typev3.StatusCode_Forbidden
}

// upstreamHeaders replace what the client sent under the same name: a policy that
// sets x-user must never have its value appended to a forged one. Further values
// of a name are appended to the first. They also carry the deprecated append,
// because Envoys of 2025 and before look at nothing else here and would let the
// last value win.
func upstreamHeaders(fields []authz.Field) []*corev3.HeaderValueOption {
	options := replacingHeaders(fields)
	for _, o := range options {
		if o.AppendAction == corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD {
			o.Append = wrapperspb.Bool(true) //nolint:staticcheck // see above
		}
	}
	return options
}

// replacingHeaders replace what stands under the same name; further values of a
// name are added to the first.
func replacingHeaders(fields []authz.Field) []*corev3.HeaderValueOption {
	options := addedHeaders(fields)
	seen := make(map[string]bool, len(fields))
	for i, f := range fields {
		name := strings.ToLower(f.Name)
		if !seen[name] {
			options[i].AppendAction = corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
		}
		seen[name] = true
	}
	return options
}

// addedHeaders stand next to what has the same name.
func addedHeaders(fields []authz.Field) []*corev3.HeaderValueOption {
	options := make([]*corev3.HeaderValueOption, len(fields))
	for i, f := range fields {
		options[i] = &corev3.HeaderValueOption{
			Header:       &corev3.HeaderValue{Key: f.Name, Value: f.Value},
			AppendAction: corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD,
		}
	}
	return options
}

// queryParameters escapes names and values for where they stand; a `=` in a value ends
// nothing.
func queryParameters(fields []authz.Field) []*corev3.QueryParameter {
	parameters := make([]*corev3.QueryParameter, len(fields))
	for i, f := range fields {
		parameters[i] = &corev3.QueryParameter{
			Key:   escapeQuery(f.Name, "=&"),
			Value: escapeQuery(f.Value, "&"),
		}
	}
	return parameters
}

// escapeQuery escapes what cannot stand in a query, which Envoy would send as it
// is, and the separators. All else stays, so that what a policy has escaped itself
// is not escaped again.
func escapeQuery(text, separators string) string {
	const hex = "0123456789ABCDEF"
	var out strings.Builder
	for i := range len(text) {
		c := text[i]
		if c > ' ' && c < 0x7f && !strings.ContainsRune(`"#<>`, rune(c)) && !strings.Contains(separators, string(c)) {
			out.WriteByte(c)
			continue
		}
		out.Write([]byte{'%', hex[c>>4], hex[c&15]})
	}
	return out.String()
}
