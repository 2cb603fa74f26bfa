package httpauthz

import (
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// original is the request line of the request that a proxy asks about, as the proxy
// guarantees it. Host and scheme are empty where it does not send them.
type original struct {
	method, scheme, host, path string
	// source is the client's address; not valid if the proxy does not send it.
	source netip.Addr
}

// forwarded returns a request whose host, scheme and source are in the usual
// X-Forwarded headers.
func forwarded(r *http.Request, method, path string) (*original, *refusal) {
	o := &original{method: method, path: path}
	var refused *refusal
	if o.host, refused = one(r, "X-Forwarded-Host"); refused != nil {
		return nil, refused
	}
	if o.scheme, refused = one(r, "X-Forwarded-Proto"); refused != nil {
		return nil, refused
	}
	return o.from(r)
}

// fromURL splits X-Original-URL by itself, for url.Parse would let a Host header with a
// "?" or "#" hide the path.
func fromURL(r *http.Request, method string) (*original, *refusal) {
	target, refused := one(r, "X-Original-Url")
	if refused != nil {
		return nil, refused
	}
	scheme, rest, _ := strings.Cut(target, "://")
	host, path, found := strings.Cut(rest, "/")
	if !found {
		return nil, badSubrequest("The header X-Original-URL is no URL.")
	}
	o := &original{method: method, scheme: scheme, host: host, path: "/" + path}
	return o.from(r)
}

// hostForm is a host name or address, with or without a port.
var hostForm = regexp.MustCompile(`^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?$`)

// from adds the source and checks all that came in headers.
func (o *original) from(r *http.Request) (*original, *refusal) {
	if !hostForm.MatchString(o.host) {
		return nil, badSubrequest("The host that was asked for is not a host.")
	}
	if !slices.Contains([]string{"http", "https", "ws", "wss"}, o.scheme) {
		return nil, badSubrequest("The scheme that was used is not http, https, ws or wss.")
	}
	var refused *refusal
	if o.source, refused = nearest(r); refused != nil {
		return nil, refused
	}
	if refused = o.check(); refused != nil {
		return nil, refused
	}
	if ambiguousPath(o.path) {
		return nil, errAmbiguousPath
	}
	return o, nil
}

// errAmbiguousPath denies what proxies other than Envoy pass on as they got it.
var errAmbiguousPath = badSubrequest("The path has dot segments, empty segments, escaped slashes, backslashes or a fragment, " +
	"so that the upstream may take it for another path. Send it normalized.")

// check refuses what is no request line. The policy and the upstream have to read the
// same method and path; a space or a line break could make two request lines of one.
func (o *original) check() *refusal {
	if !httpguts.ValidHeaderFieldName(o.method) {
		return badSubrequest("The method is not a method.")
	}
	if !strings.HasPrefix(o.path, "/") && (o.path != "*" || o.method != http.MethodOptions) {
		return badSubrequest("The path does not begin with a slash.")
	}
	if strings.ContainsFunc(o.path, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
		return badSubrequest("The path has a space or a control character.")
	}
	return nil
}

// nearest returns the last address of X-Forwarded-For, which is the one that the
// proxy itself saw; the client may have forged all before it.
func nearest(r *http.Request) (netip.Addr, *refusal) {
	list := strings.Join(r.Header.Values("X-Forwarded-For"), ",")
	last := strings.TrimSpace(list[strings.LastIndexByte(list, ',')+1:])
	if addr, err := netip.ParseAddr(last); err == nil {
		return addr.Unmap(), nil
	}
	both, err := netip.ParseAddrPort(last)
	if err != nil {
		return netip.Addr{}, badSubrequest("The header X-Forwarded-For has to be there and end with an address.")
	}
	return both.Addr().Unmap(), nil
}

// one returns the value of a header that has to be there exactly once.
func one(r *http.Request, name string) (string, *refusal) {
	values := r.Header.Values(name)
	if len(values) != 1 || values[0] == "" {
		return "", badSubrequest("The header " + name + " has to be there exactly once; the proxy has to set it.")
	}
	return values[0], nil
}
