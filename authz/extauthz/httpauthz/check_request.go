package httpauthz

import (
	"crypto/tls"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/authz/extauthz/body"
	"understudy/authz/extauthz/input"
)

// hopHeaders belong to the connection between the proxy and this server (RFC 9110,
// 7.6.1). Other headers that a Connection header names stay, for the upstream may see
// them too.
var hopHeaders = []string{
	"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
}

// checkRequest is the message that Envoy would send over gRPC. A field that the proxy
// does not send is not populated.
func (o *original) checkRequest(r *http.Request, route route, content []byte, now time.Time) *authv3.CheckRequest {
	headers := o.headers(r, route.form, len(content) > 0)
	request := &authv3.AttributeContext_HttpRequest{
		Method:  o.method,
		Headers: headers,
		Path:    headers[":path"],
		Host:    headers[":authority"],
		Scheme:  o.scheme,
		Size:    -1, // unknown, as Envoy has it
	}
	if len(content) > 0 && !strings.EqualFold(headers[body.PartialHeader], "true") {
		request.Size = int64(len(content))
	}
	// As text where policies may look for text; a gRPC body is only read as bytes.
	if utf8.Valid(content) && !strings.Contains(strings.ToLower(headers["content-type"]), "application/grpc") {
		request.Body = string(content)
	} else {
		request.RawBody = content
	}
	attributes := &authv3.AttributeContext{
		Request:     &authv3.AttributeContext_Request{Time: timestamppb.New(now), Http: request},
		Source:      o.peer(),
		Destination: proxy(r.TLS),
	}
	if route.policy != "" {
		attributes.ContextExtensions = map[string]string{input.PolicyExtension: route.policy}
	}
	return &authv3.CheckRequest{Attributes: attributes}
}

// headers are those of the original request in the form that Envoy has: names in lower
// case, values joined by commas, the request line as pseudo-headers, all of it UTF-8.
func (o *original) headers(r *http.Request, form *form, hasBody bool) map[string]string {
	out := make(map[string]string, len(r.Header)+4)
	for name, values := range r.Header {
		if name = strings.ToLower(name); form.passes(name, hasBody) {
			out[name] = validText(strings.Join(values, ","))
		}
	}
	for name, value := range map[string]string{
		":method": o.method, ":path": o.path, ":authority": o.host, ":scheme": o.scheme,
	} {
		if value != "" {
			out[name] = validText(value)
		}
	}
	if form.apart && !hasBody && o.mayHaveBody() {
		// It is not known whether the original request has one. A policy that reads it has
		// to see that it may be missing: "deny if the amount is above 100" allows without.
		out[body.PartialHeader] = "true"
	}
	return out
}

// mayHaveBody reports whether requests of the method have bodies with a meaning (RFC
// 9110, 9.3).
func (o *original) mayHaveBody() bool {
	return o.method != http.MethodGet && o.method != http.MethodHead
}

// passes reports whether a header of the subrequest is one of the original request.
func (f *form) passes(name string, hasBody bool) bool {
	switch name {
	case "content-length":
		// Without a body it is the length of the subrequest: zero.
		return hasBody
	case body.PartialHeader:
		// Envoy sets it. From other proxies it is the client's, who could hide its body so.
		return f.removes
	}
	return !slices.Contains(hopHeaders, name) && !slices.Contains(f.carriers, name)
}

// peer is the client; nil if its address is not known. Its port never is.
func (o *original) peer() *authv3.AttributeContext_Peer {
	if !o.source.IsValid() {
		return nil
	}
	return &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
		SocketAddress: &corev3.SocketAddress{Address: o.source.String()},
	}}}
}

// proxy is the proxy by its verified certificate; nil if it has none. It is the
// destination of the original request, not its source: as the source, every client of
// the proxy would have the identity of the proxy.
func proxy(session *tls.ConnectionState) *authv3.AttributeContext_Peer {
	if session == nil || len(session.VerifiedChains) == 0 {
		return nil
	}
	for _, uri := range session.VerifiedChains[0][0].URIs {
		return &authv3.AttributeContext_Peer{Principal: validText(uri.String())}
	}
	return nil
}

// validText makes text UTF-8, for a message with other text cannot be marshalled.
func validText(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
