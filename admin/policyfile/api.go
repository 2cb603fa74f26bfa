package policyfile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime"
	"strings"

	"understudy/admin"
	"understudy/admin/access"
	"understudy/admin/audit"
	"understudy/admin/library"
	"understudy/admin/policyfile/signature"
	"understudy/admin/rest"
	"understudy/authz/diagnostics"
)

// The sizes of the largest documents, in bytes: those of Chef's server. The manifest of a
// cookbook has a line for each of its files.
const (
	maxBody     = 1_000_000
	maxManifest = 2_000_000
)

// Config is what an API needs.
type Config struct {
	// Admin has the libraries. Required.
	Admin *admin.Server
	// Guard says by which names HTTP may ask.
	Guard rest.Guard
	// Authenticator finds who sends a request that is not signed. With neither it nor Keys
	// there is no authentication: the sender is nobody in particular.
	Authenticator access.Authenticator
	// Keys are those by which requests are signed. Nil means that signatures are not
	// looked at.
	Keys *signature.Keyring
	// CountSignature is called with how the verification of each signature ended: ok,
	// malformed, expired (of another time), signature (wrong, or of nobody who is known) or
	// revoked (good, and refused by Admit).
	// Nil counts nothing.
	CountSignature func(ctx context.Context, outcome string)
	// Admit returns an error for who signs well and is refused all the same. Nil refuses
	// nobody.
	Admit func(ctx context.Context, sender access.Principal) error
	// Authorizer finds what a sender may. Nil means that everybody may everything.
	Authorizer access.Authorizer
	// IAM keeps what _acl shows. Nil means that nobody is named, and nothing can be changed.
	IAM IAM
	// Project is the ID of the project that paths without /organizations/{org} are
	// about.
	Project string
	// TrustRevisionIDs takes the revision_id of a new lock as it is, as Chef's server
	// does. Otherwise it is computed, and a wrong one is refused.
	TrustRevisionIDs bool
	// Audit records the calls. Nil means that nothing is recorded.
	Audit *audit.Recorder
	// Logger gets the causes of internal errors, which callers do not see, and locks that
	// end what a policy enforces. Nil means none.
	Logger *slog.Logger
	// Panics reports what panics. Nil means that they are logged only.
	Panics *diagnostics.Panics
}

// API is the Policyfile HTTP API. It is safe for concurrent use.
type API struct {
	admin         *admin.Server
	guard         rest.Guard
	authenticator access.Authenticator
	keys          *signature.Keyring
	authorizer    access.Authorizer
	iam           IAM
	// countSignature is never nil.
	countSignature func(context.Context, string)
	// admit is never nil.
	admit   func(context.Context, access.Principal) error
	project string
	trust   bool
	// parsing has a token for each document that is being parsed, which bounds them.
	parsing chan struct{}
	audit   *audit.Recorder
	log     *slog.Logger
	// panics reports what panics in calls.
	panics *diagnostics.Panics
}

// New returns an API.
func New(c Config) (*API, error) {
	if c.Admin == nil {
		return nil, errors.New("policyfile: Config.Admin is required")
	}
	a := &API{
		admin: c.Admin, guard: c.Guard, authenticator: c.Authenticator, keys: c.Keys, authorizer: c.Authorizer, iam: c.IAM,
		project: c.Project, trust: c.TrustRevisionIDs, audit: c.Audit, log: c.Logger, panics: c.Panics,
		parsing: make(chan struct{}, runtime.GOMAXPROCS(0)), countSignature: c.CountSignature, admit: c.Admit,
	}
	if a.countSignature == nil {
		a.countSignature = func(context.Context, string) {}
	}
	if a.admit == nil {
		a.admit = func(context.Context, access.Principal) error { return nil }
	}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	if a.panics == nil {
		var err error
		if a.panics, err = diagnostics.NewPanics(a.log, nil); err != nil {
			return nil, fmt.Errorf("policyfile: %w", err)
		}
	}
	return a, nil
}

// Handler serves the API, and leaves to next what is not below a path of Chef's API,
// such as /policies or /organizations.
func (a *API) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if chefs(r.URL.EscapedPath()) {
			a.serve(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// serve answers a request in the form of Chef, whatever happens in it. A panic is
// reported, and the caller learns nothing of its cause.
func (a *API) serve(w http.ResponseWriter, r *http.Request) {
	defer func() {
		if cause := recover(); cause != nil {
			a.panics.Report(r.Context(), diagnostics.PanicAPI, cause)
			write(w, problemReply(problem(http.StatusInternalServerError, "internal service error")))
		}
	}()
	r = a.audit.Request(r, audit.Policyfile)
	response, err := a.handle(w, r)
	if err != nil {
		p := problemOf(err)
		if p.Status == http.StatusInternalServerError {
			a.log.ErrorContext(r.Context(), "a call failed", "error", err)
		}
		if p.Status == http.StatusUnauthorized {
			a.audit.Unauthenticated(r)
			a.challenge(w.Header())
		}
		response = problemReply(p)
	}
	write(w, response)
}

// handle takes the steps of a request in order: what every API on the port checks, the
// sender, the project, the route, what the sender may, the names in the path, the query, the
// body, and the call. The order is that in which errors are found: nothing but bindings is
// read from the store for a request that is refused.
func (a *API) handle(w http.ResponseWriter, r *http.Request) (*reply, error) {
	if err := a.guard.Check(r); err != nil {
		return nil, err
	}
	r, err := a.authenticate(w, r)
	if err != nil {
		return nil, err
	}
	prefix, path := cutOrganization(r.URL.EscapedPath())
	project := a.project
	if prefix != "" {
		if project, err = url.PathUnescape(strings.TrimPrefix(prefix, organizations)); err != nil {
			return nil, problem(http.StatusBadRequest, "the path cannot be read")
		}
	}
	match, err := find(r.Method, path)
	if allowed := (*notAllowed)(nil); errors.As(err, &allowed) {
		w.Header().Set("Allow", allowed.methods)
	}
	if err != nil {
		return nil, err
	}
	return a.recorded(r, project, match, func(r *http.Request) (*reply, error) {
		return a.run(w, r, project, prefix, match)
	})
}

// organizations begins the paths that name their project.
const organizations = "/organizations/"

// cutOrganization cuts the organization off a path; the prefix is empty if there is none.
func cutOrganization(path string) (prefix, below string) {
	rest, ok := strings.CutPrefix(path, organizations)
	if !ok {
		return "", path
	}
	org, below, _ := strings.Cut(rest, "/")
	return organizations + org, "/" + below
}

// bodyLimit is the size of the largest body of a request, which may not be routed yet.
func bodyLimit(r *http.Request) int {
	_, path := cutOrganization(r.URL.EscapedPath())
	if match, err := find(r.Method, path); err == nil && match.route == routeOfManifests {
		return maxManifest
	}
	return maxBody
}

// run makes a call that was routed, if its sender may.
func (a *API) run(w http.ResponseWriter, r *http.Request, project, prefix string, match found) (*reply, error) {
	p := &permissions{authorizer: a.authorizer, project: project, route: match.route, names: match.parameters}
	if err := p.check(r.Context()); err != nil {
		return nil, err
	}
	if err := checkNames(match); err != nil {
		return nil, err
	}
	if err := checkQuery(match.route, r.URL.Query()); err != nil {
		return nil, err
	}
	f := &format{trust: a.trust, parsing: a.parsing}
	locks, err := library.New(a.admin, project, f, a.log)
	if err != nil {
		return nil, orMissing(err, "organization '"+project+"' does not exist")
	}
	body, err := readBody(w, r)
	if err != nil {
		return nil, err
	}
	return match.run(&call{
		context: r.Context(), library: locks, format: f, origin: origin(r), base: origin(r) + prefix,
		parameters: match.parameters, query: r.URL.Query(), body: body, permissions: p, iam: a.iam, keys: a.keys,
	})
}

// origin is the scheme and the host that the caller used.
func origin(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host
}

// readBody reads the body of a method that has one.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Method != http.MethodPost && r.Method != http.MethodPut {
		return nil, nil
	}
	body, err := rest.ReadBody(w, r, bodyLimit(r))
	switch {
	case err != nil:
		return nil, unreadable(err)
	case len(body) > 0 && !rest.IsJSON(r.Header):
		return nil, problem(http.StatusUnsupportedMediaType, "the body has to be JSON in UTF-8 without a Content-Encoding: send Content-Type: application/json")
	case len(body) > 0 && !wellFormed(body):
		return nil, invalid("invalid JSON")
	}
	return body, nil
}

// reply is a response: a document as it is, or a value that becomes JSON.
type reply struct {
	status   int
	document []byte
	value    any
	header   http.Header
}

// problemReply is an error in the form that Chef's clients read: a list of texts, although there
// is mostly one, but for those errors that Chef's server writes as one text.
func problemReply(p *Problem) *reply {
	if p.alone {
		return &reply{status: p.Status, value: map[string]string{"error": p.Error()}}
	}
	return &reply{status: p.Status, value: errorBody{p.Texts, p.details()}}
}

// errorBody is the JSON of an error. Chef's clients read the texts alone.
type errorBody struct {
	Error []string `json:"error"`
	// Details are those of AIP-193: they say to programs which permission is missing, and on what.
	Details []json.RawMessage `json:"details,omitempty"`
}

// write sends a response. No proxy may keep it, for it depends on what is active now, and
// no browser may take it for anything but JSON.
func write(w http.ResponseWriter, r *reply) {
	body := r.document
	if body == nil {
		encoded, err := encode(r.value)
		if err != nil {
			r.status, encoded = http.StatusInternalServerError, []byte(`{"error":["internal service error"]}`)
		}
		body = append(encoded, '\n')
	}
	for name, values := range r.header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(r.status)
	_, _ = w.Write(body)
}
