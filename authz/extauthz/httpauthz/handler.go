package httpauthz

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"understudy/authz"
	"understudy/authz/extauthz"
)

// Config says at which paths a Handler is asked, and how much it reads. It is a value.
type Config struct {
	// PathPrefix begins the paths of Envoy's HTTP service: its path_prefix, such as
	// /envoy. "/" means that Envoy has none; all paths are its requests' own then,
	// and the other forms are off, for a client could choose its form by its path.
	PathPrefix string
	// MaxBody bounds the body that a proxy sends along, in bytes; a longer one is denied
	// with 413. Zero means 1 MiB.
	MaxBody int64
}

const defaultMaxBody = 1 << 20

// prefixForm is what a path prefix may be. It has no "@", which ends it where a
// policy is named.
var prefixForm = regexp.MustCompile(`^(/|(/[A-Za-z0-9._~-]+)+)$`)

// policyForm is what names a policy in a path.
var policyForm = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,255}$`)

// Validate returns what is wrong with the configuration, in words for an operator.
func (c Config) Validate() error {
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

// Handler is a Server of package extauthz as an http.Handler: checks are decided and
// recorded as those over gRPC, and the decision is in status and headers. It is safe for
// concurrent use.
type Handler struct {
	server  *extauthz.Server
	forms   []*form
	maxBody int64
}

// New returns the Handler of a Server. Two defaults of net/http would break it: a
// ServeMux cleans paths, so none may stand before it, and an http.Server answers
// "OPTIONS *" with 200, an allow, by itself unless DisableGeneralOptionsHandler is set.
// The error is that of Validate.
func New(s *extauthz.Server, c Config) (*Handler, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("asking over HTTP: %w", err)
	}
	h := &Handler{server: s, maxBody: c.MaxBody, forms: []*form{envoyForm(c.PathPrefix)}}
	if h.maxBody == 0 {
		h.maxBody = defaultMaxBody
	}
	if c.PathPrefix != "/" {
		h.forms = append(h.forms, forwardForm, nginxForm)
	}
	return h, nil
}

// route is what the path of a subrequest says.
type route struct {
	form *form
	// policy is empty if the path names none.
	policy string
	// rest is what follows.
	rest string
}

// refusal is the denial of a subrequest whatever the policy says.
type refusal struct {
	status int
	// failure is the class of what went wrong; empty if no policy was asked.
	failure authz.Failure
	// text says how to fix it. It quotes nothing of the request.
	text string
}

func (r *refusal) Error() string { return r.text }

var (
	errPanicked = &refusal{status: http.StatusForbidden, failure: authz.FailurePanic, text: "The check panicked."}
	errNoForm   = &refusal{status: http.StatusNotFound, text: "Nothing is authorized at this path."}
	errTooLarge = &refusal{status: http.StatusRequestEntityTooLarge, text: "The body is too large to be authorized."}
)

func badSubrequest(text string) *refusal { return &refusal{status: http.StatusBadRequest, text: text} }

// ServeHTTP answers one subrequest. Whatever goes wrong is a denial, unless
// [extauthz.OnFailureError] or [extauthz.OnFailureResponse] asks for an error: that is
// 503.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	route, ok := h.route(r.RequestURI)
	// A connection that breaks off would be an error, which a proxy may turn into an
	// allow. What panics has written nothing yet.
	defer func() {
		if cause := recover(); cause != nil {
			h.server.ReportPanic(r.Context(), cause)
			h.send(w, errPanicked.reply(), route.form)
		}
	}()
	if !ok {
		h.send(w, errNoForm.reply(), route.form)
		return
	}
	check, refused := h.checkRequest(w, r, route)
	if refused != nil {
		h.send(w, refused.reply(), route.form)
		return
	}
	response, err := h.server.CheckForHTTP(r.Context(), check)
	if err != nil {
		http.Error(w, "The policy could not decide.", http.StatusServiceUnavailable)
		return
	}
	if response.GetErrorResponse() != nil {
		errorOf(response).write(w)
		return
	}
	h.send(w, replyOf(response, route.form), route.form)
}

// send writes a reply as the proxy understands it. That of an observer is always an
// allow.
func (h *Handler) send(w http.ResponseWriter, r *reply, form *form) {
	if h.server.Observes() {
		r = r.observed()
	}
	if form != nil {
		r = r.understood(form)
	}
	r.write(w)
}

// route finds the form of a request target by its bytes as they were sent, for a path
// that is cleaned or decoded is not the one that will be decided. A policy is named
// as in /envoy@web. What Envoy appends begins with a slash, so that no client can
// name one.
func (h *Handler) route(target string) (route, bool) {
	for _, form := range h.forms {
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

// checkRequest makes the CheckRequest that Envoy would send over gRPC.
func (h *Handler) checkRequest(w http.ResponseWriter, r *http.Request, route route) (*authv3.CheckRequest, *refusal) {
	original, refused := route.form.read(r, route.rest)
	if refused != nil {
		return nil, refused
	}
	body, refused := h.readBody(w, r)
	if refused != nil {
		return nil, refused
	}
	return original.checkRequest(r, route, body, h.server.Now()), nil
}

func (h *Handler) readBody(w http.ResponseWriter, r *http.Request) ([]byte, *refusal) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.maxBody))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, errTooLarge
	}
	if err != nil {
		return nil, badSubrequest("The body could not be read.")
	}
	return body, nil
}
