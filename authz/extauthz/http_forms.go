package extauthz

import (
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// form is one way in which proxies ask over HTTP. What each takes from where, and
// why, is told at its reader: a header that the proxy does not set is the client's.
type form struct {
	// path is where it is asked.
	path string
	// fits reports whether it understands what follows the path.
	fits func(rest string) bool
	// read returns what is asked.
	read func(r *http.Request, rest string) (*question, *refusal)
	// carriers are the headers, in lower case, that are the proxy's alone and tell a
	// policy nothing more.
	carriers []string
	// apart says that the proxy asks by a request of its own, which mostly has no body
	// although the request that it is about has one.
	apart bool
	// removes says that the proxy takes headers from the request if it is told to.
	removes bool
	// denial returns the status that the proxy understands as a denial.
	denial func(status int) int
}

// question is the request line of what is to be decided, as a proxy vouches for
// it. Host and scheme are empty where it does not tell them.
type question struct {
	method, scheme, host, path string
	// source is the client's address, if it is told.
	source netip.Addr
}

// envoyForm is Envoy's HTTP service: the request itself, its path behind a prefix.
// No header can say otherwise. Whose connection it was Envoy does not tell, so
// there is neither a source nor a scheme: X-Forwarded-For would end with Envoy.
func envoyForm(prefix string) *form {
	return &form{
		path: prefix,
		fits: func(rest string) bool { return strings.HasPrefix(rest, "/") || rest == "*" },
		read: func(r *http.Request, rest string) (*question, *refusal) {
			q := &question{method: r.Method, host: r.Host, path: rest}
			return q, q.check()
		},
		removes: true,
		denial:  envoyDenial,
	}
}

// envoyDenial keeps a denial from being something else: Envoy passes a request at
// 200 and takes 5xx for a failure, which failure_mode_allow passes too. Below 200 a
// status would not even be the last one.
func envoyDenial(status int) int {
	if status < 300 || status >= 500 {
		return http.StatusForbidden
	}
	return status
}

// forwardForm is what Traefik and Caddy call forward authentication. All five
// headers are the proxy's, which replaces what a client sent under their names;
// that one is missing or there twice means that it does not.
var forwardForm = &form{
	path: "/forward-auth",
	fits: noPath,
	read: func(r *http.Request, _ string) (*question, *refusal) {
		method, refused := one(r, "X-Forwarded-Method")
		if refused != nil {
			return nil, refused
		}
		path, refused := one(r, "X-Forwarded-Uri")
		if refused != nil {
			return nil, refused
		}
		return forwarded(r, method, path)
	},
	carriers: []string{"x-forwarded-method", "x-forwarded-uri"},
	apart:    true,
	denial:   successIsAllow,
}

// nginxForm is auth_request of nginx. The URL is in X-Original-URL, as
// ingress-nginx has it, or the path alone in X-Original-URI. If both are there, one
// of them is the client's, and nobody knows which.
var nginxForm = &form{
	path: "/nginx-auth",
	fits: noPath,
	read: func(r *http.Request, _ string) (*question, *refusal) {
		method, refused := one(r, "X-Original-Method")
		if refused != nil {
			return nil, refused
		}
		if len(r.Header.Values("X-Original-Uri")) == 0 {
			return original(r, method)
		}
		if len(r.Header.Values("X-Original-Url")) > 0 {
			return nil, badQuestion("The headers X-Original-URL and X-Original-URI exclude each other; the proxy has to clear the other one.")
		}
		path, refused := one(r, "X-Original-Uri")
		if refused != nil {
			return nil, refused
		}
		return forwarded(r, method, path)
	},
	carriers: []string{"x-original-method", "x-original-url", "x-original-uri"},
	apart:    true,
	denial:   nginxDenial,
}

// noPath refuses more path. A query is left unread, because some proxies append
// that of the client (Caddy does): nothing can be chosen by it.
func noPath(rest string) bool { return rest == "" || rest[0] == '?' }

func successIsAllow(status int) int {
	if status < 300 {
		return http.StatusForbidden
	}
	return status
}

// nginxDenial: nginx knows two denials; all others it answers with 500.
func nginxDenial(status int) int {
	if status == http.StatusUnauthorized {
		return status
	}
	return http.StatusForbidden
}

// forwarded returns a question whose host, scheme and source are in the usual
// X-Forwarded headers.
func forwarded(r *http.Request, method, path string) (*question, *refusal) {
	q := &question{method: method, path: path}
	var refused *refusal
	if q.host, refused = one(r, "X-Forwarded-Host"); refused != nil {
		return nil, refused
	}
	if q.scheme, refused = one(r, "X-Forwarded-Proto"); refused != nil {
		return nil, refused
	}
	return q.from(r)
}

// original takes X-Original-URL apart by itself: url.Parse would let a Host header
// with a "?" or "#" hide the path.
func original(r *http.Request, method string) (*question, *refusal) {
	target, refused := one(r, "X-Original-Url")
	if refused != nil {
		return nil, refused
	}
	scheme, rest, _ := strings.Cut(target, "://")
	host, path, found := strings.Cut(rest, "/")
	if !found {
		return nil, badQuestion("The header X-Original-URL is no URL.")
	}
	q := &question{method: method, scheme: scheme, host: host, path: "/" + path}
	return q.from(r)
}

// hostForm is a host name or address, with or without a port.
var hostForm = regexp.MustCompile(`^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?$`)

// from adds the source and checks all that came in headers.
func (q *question) from(r *http.Request) (*question, *refusal) {
	if !hostForm.MatchString(q.host) {
		return nil, badQuestion("The host that was asked for is not a host.")
	}
	if !slices.Contains([]string{"http", "https", "ws", "wss"}, q.scheme) {
		return nil, badQuestion("The scheme that was used is not http, https, ws or wss.")
	}
	var refused *refusal
	if q.source, refused = nearest(r); refused != nil {
		return nil, refused
	}
	if refused = q.check(); refused != nil {
		return nil, refused
	}
	if ambiguousPath(q.path) {
		return nil, errAmbiguousPath
	}
	return q, nil
}

// errAmbiguousPath denies what proxies other than Envoy pass on as they got it.
var errAmbiguousPath = badQuestion("The path has dot segments, empty segments, escaped slashes, backslashes or a fragment, " +
	"so that the upstream may take it for another path. Send it normalized.")

// check refuses what is no request line.
func (q *question) check() *refusal {
	if !httpguts.ValidHeaderFieldName(q.method) {
		return badQuestion("The method is not a method.")
	}
	if !strings.HasPrefix(q.path, "/") && (q.path != "*" || q.method != http.MethodOptions) {
		return badQuestion("The path does not begin with a slash.")
	}
	if strings.ContainsFunc(q.path, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
		return badQuestion("The path has a space or a control character.")
	}
	return nil
}

// nearest returns the last address of X-Forwarded-For, which is the one that the
// proxy itself saw; all before it may be the client's invention.
func nearest(r *http.Request) (netip.Addr, *refusal) {
	list := strings.Join(r.Header.Values("X-Forwarded-For"), ",")
	last := strings.TrimSpace(list[strings.LastIndexByte(list, ',')+1:])
	if addr, err := netip.ParseAddr(last); err == nil {
		return addr.Unmap(), nil
	}
	both, err := netip.ParseAddrPort(last)
	if err != nil {
		return netip.Addr{}, badQuestion("The header X-Forwarded-For has to be there and end with an address.")
	}
	return both.Addr().Unmap(), nil
}

// one returns the value of a header that has to be there exactly once.
func one(r *http.Request, name string) (string, *refusal) {
	values := r.Header.Values(name)
	if len(values) != 1 || values[0] == "" {
		return "", badQuestion("The header " + name + " has to be there exactly once; the proxy has to set it.")
	}
	return values[0], nil
}
