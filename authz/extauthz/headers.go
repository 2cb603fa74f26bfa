package extauthz

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
)

// headers looks up the headers of a request, which Envoy sends as a map or, with
// encode_raw_headers, as a list with raw values. It is a
// propagation.TextMapCarrier that cannot be written to.
type headers struct {
	byName map[string]string
	list   []*corev3.HeaderValue
}

func headersOf(check *authv3.CheckRequest) headers {
	http := check.GetAttributes().GetRequest().GetHttp()
	return headers{http.GetHeaders(), http.GetHeaderMap().GetHeaders()}
}

// Get returns the first value of a header, or the empty string.
func (h headers) Get(name string) string {
	value, _ := h.find(name)
	return value
}

func (h headers) find(name string) (string, bool) {
	if value, ok := h.byName[strings.ToLower(name)]; ok {
		return value, true
	}
	for _, header := range h.list {
		if strings.EqualFold(header.GetKey(), name) {
			if raw := header.GetRawValue(); len(raw) > 0 {
				return string(raw), true
			}
			return header.GetValue(), true
		}
	}
	return "", false
}

// Set does nothing: a request is only read.
func (headers) Set(string, string) {}

// Keys returns the names of all headers.
func (h headers) Keys() []string {
	out := make([]string, 0, len(h.byName)+len(h.list))
	for name := range h.byName {
		out = append(out, name)
	}
	for _, header := range h.list {
		out = append(out, strings.ToLower(header.GetKey()))
	}
	return out
}
