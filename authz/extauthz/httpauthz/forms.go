package httpauthz

import (
	"net/http"
	"strings"
)

// form is one protocol by which proxies ask over HTTP. Which headers it trusts, and why,
// is documented at each: a header that the proxy does not set is the client's. A form is
// immutable.
type form struct {
	// path is the path of its subrequests.
	path string
	// fits reports whether it understands what follows the path.
	fits func(rest string) bool
	// read returns the original request.
	read func(r *http.Request, rest string) (*original, *refusal)
	// carriers are the headers, in lower case, in which the proxy sends the request line.
	// A policy does not see them, for they say nothing more.
	carriers []string
	// apart says that the subrequest mostly has no body although the original request has
	// one.
	apart bool
	// removes says that the reply can name headers for the proxy to remove.
	removes bool
	// denial returns the status that the proxy understands as a denial.
	denial func(status int) int
}

// envoyForm is Envoy's HTTP service: the request itself, its path behind a prefix.
// No header overrides that. Envoy does not send whose connection it was, so there is
// neither a source nor a scheme: X-Forwarded-For would end with Envoy.
func envoyForm(prefix string) *form {
	return &form{
		path: prefix,
		fits: func(rest string) bool { return strings.HasPrefix(rest, "/") || rest == "*" },
		read: func(r *http.Request, rest string) (*original, *refusal) {
			o := &original{method: r.Method, host: r.Host, path: rest}
			return o, o.check()
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
	read: func(r *http.Request, _ string) (*original, *refusal) {
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
// of them is the client's, and which one cannot be known.
var nginxForm = &form{
	path: "/nginx-auth",
	fits: noPath,
	read: func(r *http.Request, _ string) (*original, *refusal) {
		method, refused := one(r, "X-Original-Method")
		if refused != nil {
			return nil, refused
		}
		if len(r.Header.Values("X-Original-Uri")) == 0 {
			return fromURL(r, method)
		}
		if len(r.Header.Values("X-Original-Url")) > 0 {
			return nil, badSubrequest("The headers X-Original-URL and X-Original-URI exclude each other; the proxy has to clear the other one.")
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
