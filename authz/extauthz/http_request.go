package extauthz

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// hopHeaders belong to the connection between the proxy and us (RFC 9110, 7.6.1).
// What else a Connection header names stays, for the upstream may see it too.
var hopHeaders = []string{
	"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
}

func (f *httpFront) readBody(w http.ResponseWriter, r *http.Request) ([]byte, *refusal) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, f.maxBody))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, errTooLarge
	}
	if err != nil {
		return nil, badQuestion("The body could not be read.")
	}
	return body, nil
}

// checkRequest is the message that Envoy would send over gRPC. A field that the
// proxy does not tell is not populated.
func (q *question) checkRequest(r *http.Request, route route, body []byte, now time.Time) *authv3.CheckRequest {
	headers := q.headers(r, route.form, len(body) > 0)
	request := &authv3.AttributeContext_HttpRequest{
		Method:  q.method,
		Headers: headers,
		Path:    headers[":path"],
		Host:    headers[":authority"],
		Scheme:  q.scheme,
		Size:    -1, // unknown, as Envoy has it
	}
	if len(body) > 0 && !strings.EqualFold(headers[partialBody], "true") {
		request.Size = int64(len(body))
	}
	// As text where policies may look for text; a gRPC body is only read as bytes.
	if utf8.Valid(body) && !strings.Contains(strings.ToLower(headers["content-type"]), "application/grpc") {
		request.Body = string(body)
	} else {
		request.RawBody = body
	}
	attributes := &authv3.AttributeContext{
		Request:     &authv3.AttributeContext_Request{Time: timestamppb.New(now), Http: request},
		Source:      q.peer(),
		Destination: proxy(r.TLS),
	}
	if route.policy != "" {
		attributes.ContextExtensions = map[string]string{policyExtension: route.policy}
	}
	return &authv3.CheckRequest{Attributes: attributes}
}

// headers are those of the request that is decided, in Envoy's form: names in lower
// case, values joined by commas, the request line as pseudo-headers, all of it
// UTF-8.
func (q *question) headers(r *http.Request, form *form, hasBody bool) map[string]string {
	out := make(map[string]string, len(r.Header)+4)
	for name, values := range r.Header {
		if name = strings.ToLower(name); form.passes(name, hasBody) {
			out[name] = validText(strings.Join(values, ","))
		}
	}
	for name, value := range map[string]string{
		":method": q.method, ":path": q.path, ":authority": q.host, ":scheme": q.scheme,
	} {
		if value != "" {
			out[name] = validText(value)
		}
	}
	if form.apart && !hasBody && q.mayHaveBody() {
		// Nobody knows whether there is one. A policy that reads it has to see that it may
		// have been left out: to "deny if the amount is above 100" none is less.
		out[partialBody] = "true"
	}
	return out
}

// mayHaveBody reports whether requests of the method have bodies, as far as anybody
// takes notice of them (RFC 9110, 9.3).
func (q *question) mayHaveBody() bool {
	return q.method != http.MethodGet && q.method != http.MethodHead
}

// passes reports whether a header of the question is one of the request that it is
// about.
func (f *form) passes(name string, hasBody bool) bool {
	switch name {
	case "content-length":
		// Without a body it tells how long the question is: nothing.
		return hasBody
	case partialBody:
		// Envoy's word; from elsewhere a client could hide its body behind it.
		return f.removes
	}
	return !slices.Contains(hopHeaders, name) && !slices.Contains(f.carriers, name)
}

// peer is the client, as far as it is known. Its port never is.
func (q *question) peer() *authv3.AttributeContext_Peer {
	if !q.source.IsValid() {
		return nil
	}
	return &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
		SocketAddress: &corev3.SocketAddress{Address: q.source.String()},
	}}}
}

// proxy is who asks, by its verified certificate. That is where the request is
// going, not where it comes from: as the source it would make every client of the
// proxy the proxy itself.
func proxy(session *tls.ConnectionState) *authv3.AttributeContext_Peer {
	if session == nil || len(session.VerifiedChains) == 0 {
		return nil
	}
	for _, uri := range session.VerifiedChains[0][0].URIs {
		return &authv3.AttributeContext_Peer{Principal: validText(uri.String())}
	}
	return nil
}
