package extauthz

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"understudy/authz"
	"understudy/authz/diagnostics"
)

// HTTPConfig says how a Server is asked over HTTP.
type HTTPConfig struct {
	// PathPrefix begins the paths of Envoy's HTTP service: its path_prefix, such as
	// /envoy. "/" means that Envoy has none; all paths are its requests' own then,
	// and the other forms are off, for a client could choose its form by its path.
	PathPrefix string
	// MaxBody bounds the body of a question, in bytes; a longer one is denied with
	// 413. Zero means 1 MiB.
	MaxBody int64
}

const defaultMaxBody = 1 << 20

// prefixForm is what a path prefix may be. It has no "@", which ends it where a
// policy is named.
var prefixForm = regexp.MustCompile(`^(/|(/[A-Za-z0-9._~-]+)+)$`)

// policyForm is what names a policy in a path.
var policyForm = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,255}$`)

// Validate returns what is wrong with the configuration, in words for an operator.
func (c HTTPConfig) Validate() error {
	switch {
	case !prefixForm.MatchString(c.PathPrefix):
		return errors.New("the path prefix begins with a slash and does not end with one, such as /envoy, or is / alone")
	case c.PathPrefix == forwardForm.path || c.PathPrefix == nginxForm.path:
		return errors.New("the path prefix is not " + forwardForm.path + " or " + nginxForm.path + ", where other proxies ask")
	case c.MaxBody < 0:
		return errors.New("a body has no negative length")
	}
	return nil
}

// HTTPHandler returns the HTTP flavour of the Server: the same questions, decided
// and recorded in the same way, with the answer in status and headers. Two things
// of net/http stand against it: a ServeMux cleans paths, so none may stand before
// it, and an http.Server answers "OPTIONS *" with 200, an allow, by itself unless
// DisableGeneralOptionsHandler is set. The error is that of Validate.
func (s *Server) HTTPHandler(c HTTPConfig) (http.Handler, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("asking over HTTP: %w", err)
	}
	front := &httpFront{server: s, maxBody: c.MaxBody, forms: []*form{envoyForm(c.PathPrefix)}}
	if front.maxBody == 0 {
		front.maxBody = defaultMaxBody
	}
	if c.PathPrefix != "/" {
		front.forms = append(front.forms, forwardForm, nginxForm)
	}
	return front, nil
}

// httpFront is a Server as an http.Handler.
type httpFront struct {
	server  *Server
	forms   []*form
	maxBody int64
}

// route is what the path of a question says.
type route struct {
	form *form
	// policy is empty if the path names none.
	policy string
	// rest is what follows.
	rest string
}

// refusal is a question that is denied whatever the policy says.
type refusal struct {
	status int
	// failure is the class of what went wrong; empty if no policy was asked.
	failure authz.Failure
	// text says what to mend. It quotes nothing.
	text string
}

func (r *refusal) Error() string { return r.text }

var (
	errPanicked = &refusal{status: http.StatusForbidden, failure: panicked.Failure, text: panicked.Reason}
	errNoForm   = &refusal{status: http.StatusNotFound, text: "Nothing is authorized at this path."}
	errTooLarge = &refusal{status: http.StatusRequestEntityTooLarge, text: "The body is too large to be authorized."}
)

func badQuestion(text string) *refusal { return &refusal{status: http.StatusBadRequest, text: text} }

// ServeHTTP answers one question. Whatever goes wrong is a denial, unless
// OnFailureError or OnFailureResponse asks for an error: that is 503.
func (f *httpFront) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	route, ok := f.route(r.RequestURI)
	// A connection that breaks off would be an error, which a proxy may turn into an
	// allow. What panics has written nothing yet.
	defer func() {
		if cause := recover(); cause != nil {
			f.server.panics.Report(r.Context(), diagnostics.PanicCheck, cause)
			f.send(w, errPanicked.answer(), route.form)
		}
	}()
	if !ok {
		f.send(w, errNoForm.answer(), route.form)
		return
	}
	check, refused := f.check(w, r, route)
	if refused != nil {
		f.send(w, refused.answer(), route.form)
		return
	}
	response, err := f.server.checkLazily(r.Context(), check)
	if err != nil {
		http.Error(w, "The policy could not decide.", http.StatusServiceUnavailable)
		return
	}
	if response.GetErrorResponse() != nil {
		errorOf(response).write(w)
		return
	}
	f.send(w, answerOf(response, route.form), route.form)
}

// send writes an answer as the proxy understands it. What an observer answers is
// always an allow.
func (f *httpFront) send(w http.ResponseWriter, a *answer, form *form) {
	if f.server.observe {
		a = a.observed()
	}
	if form != nil {
		a = a.understood(form)
	}
	a.write(w)
}

// route finds the form of a target, by its bytes as they were sent: a path that is
// cleaned or decoded first is not the one that will be decided. A policy is named
// as in /envoy@web. What Envoy appends begins with a slash, so that no client can
// name one.
func (f *httpFront) route(target string) (route, bool) {
	for _, form := range f.forms {
		after, ok := strings.CutPrefix(target, strings.TrimSuffix(form.path, "/"))
		if !ok {
			continue
		}
		policy := ""
		if name, named := strings.CutPrefix(after, "@"); named && form.path != "/" {
			end := strings.IndexAny(name, "/?*")
			if end < 0 {
				end = len(name)
			}
			if policy, after = name[:end], name[end:]; !policyForm.MatchString(policy) {
				continue
			}
		}
		if form.fits(after) {
			return route{form, policy, after}, true
		}
	}
	return route{}, false
}

// check makes the CheckRequest that the gRPC flavour would carry.
func (f *httpFront) check(w http.ResponseWriter, r *http.Request, route route) (*authv3.CheckRequest, *refusal) {
	asked, refused := route.form.read(r, route.rest)
	if refused != nil {
		return nil, refused
	}
	body, refused := f.readBody(w, r)
	if refused != nil {
		return nil, refused
	}
	return asked.checkRequest(r, route, body, f.server.now()), nil
}
