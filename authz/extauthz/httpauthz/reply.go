package httpauthz

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"

	"understudy/authz"
	"understudy/authz/extauthz"
)

// The headers of replies. Policies cannot set them.
const (
	headerDecisionID = "X-Understudy-Decision-Id"
	headerFailure    = "X-Understudy-Failure"
	// headerStatus is the status of a denial that the proxy would misunderstand.
	headerStatus = "X-Understudy-Status"
	// headerRemove names the headers that Envoy removes from the request.
	headerRemove = "X-Envoy-Auth-Headers-To-Remove"
)

// reservedHeaders are the headers that a policy cannot set, next to those that frame a message.
var reservedHeaders = []string{headerDecisionID, headerFailure, headerStatus, headerRemove, headerObserved}

// What an allow cannot do over HTTP. It is a denial, for an edit that is left out could be
// what made the request harmless.
var (
	errHTTPQuery  = inexpressible("The decision edits the query, which HTTP has no way to express.")
	errHTTPRemove = inexpressible("The decision removes headers of the request, which over HTTP only Envoy supports.")
	errHTTPHeader = inexpressible("The decision has a header that cannot be one of an answer over HTTP.")
	errHTTPTwice  = inexpressible("The decision has a header for the upstream and another for the client under one name, which are one over HTTP.")
)

func inexpressible(text string) *refusal {
	return &refusal{status: http.StatusForbidden, failure: authz.FailureType, text: text}
}

// reply is an HTTP response, complete before any of it is sent.
type reply struct {
	// allow says that the proxy shall pass the request.
	allow  bool
	status int
	header http.Header
	body   string
}

// reply makes a denial of a refusal. Its body says how to fix it, for the operator of the
// proxy rather than for the client.
func (r *refusal) reply() *reply {
	a := &reply{status: r.status, header: http.Header{}, body: r.text + "\n"}
	a.setFailure(string(r.failure))
	return a
}

// replyOf turns the response over gRPC into a reply.
func replyOf(response *authv3.CheckResponse, form *form) *reply {
	metadata := response.GetDynamicMetadata().GetFields()
	a := denial(response.GetDeniedResponse())
	if response.GetStatus() != nil && response.GetStatus().GetCode() == int32(codes.OK) {
		a = allowance(response.GetOkResponse(), form)
	} else {
		a.setFailure(metadata[extauthz.MetadataFailure].GetStringValue())
	}
	a.header.Set(headerDecisionID, metadata[extauthz.MetadataDecisionID].GetStringValue())
	return a
}

// errorOf returns the reply of an error_response: a status that proxies take for an error.
func errorOf(response *authv3.CheckResponse) *reply {
	metadata := response.GetDynamicMetadata().GetFields()
	a := &reply{status: http.StatusServiceUnavailable, header: http.Header{}, body: "The policy could not decide.\n"}
	a.setFailure(metadata[extauthz.MetadataFailure].GetStringValue())
	a.header.Set(headerDecisionID, metadata[extauthz.MetadataDecisionID].GetStringValue())
	return a
}

func (a *reply) setFailure(failure string) {
	if failure != "" {
		a.header.Set(headerFailure, failure)
	}
}

// allowance returns the reply of an allow, or the denial of one that HTTP has no way to
// express.
func allowance(ok *authv3.OkHttpResponse, form *form) *reply {
	header, refused := allowedHeaders(ok, form)
	if refused != nil {
		return refused.reply()
	}
	return &reply{allow: true, status: http.StatusOK, header: header}
}

func allowedHeaders(ok *authv3.OkHttpResponse, form *form) (http.Header, *refusal) {
	if len(ok.GetQueryParametersToSet()) > 0 || len(ok.GetQueryParametersToRemove()) > 0 {
		return nil, errHTTPQuery
	}
	header, refused := upstreamHeader(ok.GetHeaders())
	if refused != nil {
		return nil, refused
	}
	if refused := addClientHeaders(header, ok.GetResponseHeadersToAdd()); refused != nil {
		return nil, refused
	}
	if names := ok.GetHeadersToRemove(); len(names) > 0 {
		if !form.removes {
			return nil, errHTTPRemove
		}
		header.Set(headerRemove, strings.Join(names, ","))
	}
	return header, nil
}

// upstreamHeader has one line for each name: of several, Envoy would set the last.
// Values are joined as RFC 9110, 5.3 allows.
func upstreamHeader(options []*corev3.HeaderValueOption) (http.Header, *refusal) {
	out := http.Header{}
	for _, o := range options {
		name, value := http.CanonicalHeaderKey(o.GetHeader().GetKey()), o.GetHeader().GetValue()
		if !settable(name) {
			return nil, errHTTPHeader
		}
		if before, again := out[name]; again {
			value = before[0] + separator(name) + value
		}
		out.Set(name, value)
	}
	return out, nil
}

// separator joins values of one name: cookies by semicolons (RFC 6265, 5.4), all else
// by commas.
func separator(name string) string {
	if name == "Cookie" {
		return "; "
	}
	return ","
}

// addClientHeaders adds what goes to the client next to what goes to the upstream.
// The proxy distinguishes them by their names alone.
func addClientHeaders(header http.Header, options []*corev3.HeaderValueOption) *refusal {
	upstream := header.Clone()
	for _, o := range options {
		name, value := http.CanonicalHeaderKey(o.GetHeader().GetKey()), o.GetHeader().GetValue()
		same, taken := upstream[name]
		switch {
		case !settable(name):
			return errHTTPHeader
		case taken && same[0] != value:
			return errHTTPTwice
		case !taken:
			header.Add(name, value)
		}
	}
	return nil
}

// settable reports whether a policy may set a header of the reply. It may not set the
// request line: Envoy rewrites that over gRPC alone.
func settable(name string) bool {
	same := func(own string) bool { return strings.EqualFold(own, name) }
	return !strings.HasPrefix(name, ":") && !authz.FramingHeader(name) && !slices.ContainsFunc(reservedHeaders, same)
}

// denial returns the reply of a denial. A header that cannot be in it is left out: it
// stays a denial.
func denial(denied *authv3.DeniedHttpResponse) *reply {
	a := &reply{status: http.StatusForbidden, header: http.Header{}, body: denied.GetBody()}
	if code := int(denied.GetStatus().GetCode()); code != 0 {
		a.status = code
	}
	for _, o := range denied.GetHeaders() {
		if name := o.GetHeader().GetKey(); settable(name) {
			a.header.Add(name, o.GetHeader().GetValue())
		}
	}
	return a
}

// understood gives a denial a status that the proxy takes for a denial, and puts the
// policy's own status into a header.
func (a *reply) understood(f *form) *reply {
	if status := f.denial(a.status); !a.allow && status != a.status {
		a.header.Set(headerStatus, strconv.Itoa(a.status))
		a.status = status
	}
	return a
}

// write sends the reply. That the client has gone is no error here: the decision is
// made and logged.
func (a *reply) write(w http.ResponseWriter) {
	header := w.Header()
	for name, values := range a.header {
		header[name] = values
	}
	if a.body != "" && header.Get("Content-Type") == "" {
		// What a policy writes is text; a browser must not guess.
		header.Set("Content-Type", "text/plain; charset=utf-8")
	}
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
}
