package rest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"

	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"

	"understudy/admin/access"
	"understudy/admin/apierror"
	"understudy/admin/audit"
	"understudy/admin/content"
	"understudy/admin/dataset"
	adminpb "understudy/admin/v1"
	"understudy/authz/diagnostics"
)

// Services are what is served. Its errors have an ErrorInfo, or are those of gRPC itself.
type Services interface {
	adminpb.PolicyPreviewServer
	adminpb.DatasetsServer
	longrunningpb.OperationsServer
}

// Config is what an API needs.
type Config struct {
	// Services answer the calls. Required.
	Services Services
	// IAM says who may do what, next to them. Nil leaves it unimplemented.
	IAM iampb.IAMPolicyServer
	// Authenticator finds who calls, and Authorizer what they may: there are both or none.
	// Nil means that anyone who reaches the port may everything.
	Authenticator access.Authenticator
	Authorizer    access.Authorizer
	// Audit records the calls that change something, or were to, and the requests of nobody
	// known. Nil records nothing.
	Audit *audit.Recorder
	// MaxPolicySize is that of the services, in bytes: a body may have four times as much,
	// which is room for how JSON writes a policy. Zero means DefaultPolicySize.
	MaxPolicySize int
	// MaxDatasetSize is that of the services, in bytes. Zero means dataset.DefaultSize.
	MaxDatasetSize int
	// Guard says by which names HTTP may ask.
	Guard Guard
	// Logger gets the panics of calls if there are no Panics. Nil means none.
	Logger *slog.Logger
	// Panics reports what panics in calls. Nil means that they are logged only.
	Panics *diagnostics.Panics
}

// API serves the API on one port: gRPC to clients that speak it, REST to others, and
// the OpenAPI document at /openapi.json. It is safe for concurrent use.
type API struct {
	services      Services
	iam           iampb.IAMPolicyServer
	authenticator access.Authenticator
	audit         *audit.Recorder
	// chain is before the services, and local leads to them through it.
	chain *chain
	local *local
	// maxBody is the size of the largest request, in bytes, and maxDocument that of a document
	// that is the body itself.
	maxBody, maxDocument int
	guard                Guard
	panics               *diagnostics.Panics
	// health is that of the gRPC services.
	health    *health.Server
	rpc, rest http.Handler
}

// New returns an API. A server without TLS has to enable unencrypted HTTP/2 for gRPC.
func New(c Config) (*API, error) {
	if c.Services == nil {
		return nil, errors.New("rest: Config.Services is required")
	}
	if (c.Authenticator == nil) != (c.Authorizer == nil) {
		return nil, errors.New("rest: Config.Authenticator and Config.Authorizer are required together: who calls means nothing without what they may")
	}
	a := &API{
		services: c.Services, iam: c.IAM, authenticator: c.Authenticator, audit: c.Audit,
		guard: c.Guard, panics: c.Panics, health: health.NewServer(), maxBody: 4 * cmp.Or(c.MaxPolicySize, content.DefaultPolicySize),
		maxDocument: 2 * cmp.Or(c.MaxDatasetSize, dataset.DefaultSize), // room for white space
	}
	if a.panics == nil {
		log := cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
		var err error
		if a.panics, err = diagnostics.NewPanics(log, nil); err != nil {
			return nil, fmt.Errorf("rest: %w", err)
		}
	}
	if a.iam == nil {
		a.iam = iampb.UnimplementedIAMPolicyServer{}
	}
	a.chain = &chain{authorizer: c.Authorizer, audit: c.Audit, panics: a.panics}
	a.local = &local{chain: a.chain, methods: make(map[string]localMethod)}
	a.register(a.local)
	gateway, err := newGateway(a.local)
	if err != nil {
		return nil, err
	}
	a.rpc = a.admitted(writeGRPCError, a.probed(a.newGRPC()))
	a.rest = headAsGet(systemParameters(a.admitted(WriteError, a.routed(a.checkBody(rawPath(gateway))))))
	return a, nil
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if isGRPC(r) {
		defer a.recovered(w, r, writeGRPCError)
		a.rpc.ServeHTTP(w, a.audit.Request(r, audit.GRPC))
		return
	}
	defer a.recovered(w, r, WriteError)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	a.rest.ServeHTTP(w, a.audit.Request(r, audit.REST))
}

// routed finds the call that a request is, sees to it that the caller may make it, holds its
// query to what that takes, and serves the OpenAPI document itself. The gateway sees nothing
// that is not in our table: it would let go what the table does not know.
func (a *API) routed(next func(http.ResponseWriter, *http.Request, route)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		route, found := apiRoutes.find(r.Method, r.URL.EscapedPath())
		if !found {
			writeRoutingError(w, r)
			return
		}
		w, r, end := a.recorded(w, r, route)
		defer end()
		ctx, err := a.mayCall(r, route)
		if err = cmp.Or(err, unread(ctx)); err != nil {
			audit.FromContext(r.Context()).End(err)
			WriteError(w, err)
			return
		}
		if names := slices.Sorted(maps.Keys(r.URL.Query())); len(names) > 0 && !route.query {
			writeStatus(w, http.StatusBadRequest, unknownParameter(names[0]))
			return
		}
		if route.document {
			serveOpenAPI(w)
			return
		}
		if r = r.WithContext(ctx); route.plain != nil {
			route.plain(a, w, r, route)
			return
		}
		next(w, r, route)
	})
}

// mayCall asks whether the caller may make the call that a request is. The path says what it is
// about, so nothing of the query or the body has been looked at.
func (a *API) mayCall(r *http.Request, route route) (context.Context, error) {
	if route.document {
		return r.Context(), nil
	}
	return a.chain.authorize(r.Context(), route.rpc, route.resource(r.URL.EscapedPath()))
}

// rawPath has the gateway see the path as it was sent. It decodes what it matches,
// and would decode a second time what net/http has decoded already.
func rawPath(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.RawPath = r.URL.EscapedPath()
		next.ServeHTTP(w, r)
	})
}

// isGRPC reports whether a request is a call of gRPC, which is HTTP/2 with a content type
// of its own.
func isGRPC(r *http.Request) bool {
	return r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}

// recovered turns a panic into an answer that says nothing about it.
func (a *API) recovered(w http.ResponseWriter, r *http.Request, write writer) {
	if cause := recover(); cause != nil {
		a.panics.Report(r.Context(), diagnostics.PanicAPI, cause)
		write(w, apierror.Internal())
	}
}

// serveOpenAPI sends the document as it was generated.
func serveOpenAPI(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(adminpb.OpenAPI)
}

// codeOf maps a status to HTTP as google.rpc.Code documents it.
func codeOf(c codes.Code) int { return runtime.HTTPStatusFromCode(c) }
