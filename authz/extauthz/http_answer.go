package extauthz

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
)

// The headers of our answers. Policies cannot set them.
const (
	headerDecisionID = "X-Understudy-Decision-Id"
	headerFailure    = "X-Understudy-Failure"
	// headerStatus is the status of a denial that the proxy would misunderstand.
	headerStatus = "X-Understudy-Status"
	// headerRemove is how Envoy is told which headers to take from the request.
	headerRemove = "X-Envoy-Auth-Headers-To-Remove"
)

// ours are the headers that a policy cannot set: those above. What frames a message is
// not its either.
var ours = []string{headerDecisionID, headerFailure, headerStatus, headerRemove, headerObserved}

// What an allow cannot say over HTTP. It is a denial: an edit that is silently left
// out could be what made the request harmless.
var (
	errHTTPQuery  = unsayable("The decision edits the query, which cannot be said over HTTP.")
	errHTTPRemove = unsayable("The decision removes headers of the request, which only Envoy can be told over HTTP.")
	errHTTPHeader = unsayable("The decision has a header that cannot be one of an answer over HTTP.")
	errHTTPTwice  = unsayable("The decision has a header for the upstream and another for the client under one name, which are one over HTTP.")
)

func unsayable(text string) *refusal {
	return &refusal{status: http.StatusForbidden, failure: authz.FailureType, text: text}
}

// answer is an HTTP response, complete before any of it is sent.
type answer struct {
	// allow says that the proxy shall pass the request.
	allow  bool
	status int
	header http.Header
	body   string
}

// answer makes a denial of a refusal. It is for the operator of the proxy rather
// than for the client, so it says what to mend.
func (r *refusal) answer() *answer {
	a := &answer{status: r.status, header: http.Header{}, body: r.text + "\n"}
	a.setFailure(string(r.failure))
	return a
}

// answerOf turns the response of the gRPC flavour into an answer.
func answerOf(response *authv3.CheckResponse, form *form) *answer {
	metadata := response.GetDynamicMetadata().GetFields()
	a := denial(response.GetDeniedResponse())
	if response.GetStatus() != nil && response.GetStatus().GetCode() == int32(codes.OK) {
		a = allowance(response.GetOkResponse(), form)
	} else {
		a.setFailure(metadata[metadataFailure].GetStringValue())
	}
	a.header.Set(headerDecisionID, metadata[metadataDecisionID].GetStringValue())
	return a
}

// errorOf returns the answer of an error_response: a status that a proxy takes for one.
func errorOf(response *authv3.CheckResponse) *answer {
	metadata := response.GetDynamicMetadata().GetFields()
	a := &answer{status: http.StatusServiceUnavailable, header: http.Header{}, body: "The policy could not decide.\n"}
	a.setFailure(metadata[metadataFailure].GetStringValue())
	a.header.Set(headerDecisionID, metadata[metadataDecisionID].GetStringValue())
	return a
}

func (a *answer) setFailure(failure string) {
	if failure != "" {
		a.header.Set(headerFailure, failure)
	}
}

// allowance returns the answer of an allow, or the denial of one that cannot be
// said.
func allowance(ok *authv3.OkHttpResponse, form *form) *answer {
	header, refused := allowedHeaders(ok, form)
	if refused != nil {
		return refused.answer()
	}
	return &answer{allow: true, status: http.StatusOK, header: header}
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
func upstreamHeader(options []*corev3.HeaderValueOption) (http.Header, *refusal) {
	out := http.Header{}
	for _, o := range options {
		name, value := http.CanonicalHeaderKey(o.GetHeader().GetKey()), o.GetHeader().GetValue()
		if !answerable(name) {
			return nil, errHTTPHeader
		}
		if before, again := out[name]; again {
			value = before[0] + separator(name) + value
		}
		out.Set(name, value)
	}
	return out, nil
}

func separator(name string) string {
	if name == "Cookie" {
		return "; "
	}
	return ","
}

// addClientHeaders adds what goes to the client beside what goes to the upstream.
// The proxy tells them apart by their names alone.
func addClientHeaders(header http.Header, options []*corev3.HeaderValueOption) *refusal {
	upstream := header.Clone()
	for _, o := range options {
		name, value := http.CanonicalHeaderKey(o.GetHeader().GetKey()), o.GetHeader().GetValue()
		same, taken := upstream[name]
		switch {
		case !answerable(name):
			return errHTTPHeader
		case taken && same[0] != value:
			return errHTTPTwice
		case !taken:
			header.Add(name, value)
		}
	}
	return nil
}

// answerable reports whether a policy may set a header of our answer. It may not
// set the request line: Envoy could rewrite that over gRPC alone.
func answerable(name string) bool {
	same := func(own string) bool { return strings.EqualFold(own, name) }
	return !strings.HasPrefix(name, ":") && !authz.FramingHeader(name) && !slices.ContainsFunc(ours, same)
}

// denial returns the answer of a denial. A header that cannot be in it is left out:
// it stays a denial.
func denial(denied *authv3.DeniedHttpResponse) *answer {
	a := &answer{status: http.StatusForbidden, header: http.Header{}, body: denied.GetBody()}
	if code := int(denied.GetStatus().GetCode()); code != 0 {
		a.status = code
	}
	for _, o := range denied.GetHeaders() {
		if name := o.GetHeader().GetKey(); answerable(name) {
			a.header.Add(name, o.GetHeader().GetValue())
		}
	}
	return a
}

// understood gives a denial a status that the proxy takes for one, and says what it
// was.
func (a *answer) understood(f *form) *answer {
	if status := f.denial(a.status); !a.allow && status != a.status {
		a.header.Set(headerStatus, strconv.Itoa(a.status))
		a.status = status
	}
	return a
}

func (a *answer) write(w http.ResponseWriter) {
	header := w.Header()
	for name, values := range a.header {
		header[name] = values
	}
	if a.body != "" && header.Get("Content-Type") == "" {
		// What a policy writes is text; a browser shall not guess.
		header.Set("Content-Type", "text/plain; charset=utf-8")
	}
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
}
