package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/authz/background"
	"understudy/authz/diagnostics"
)

// maxBody is the size of the largest request, in bytes: a policy at its limit, with
// room for how JSON writes it.
func (s *Server) maxBody() int { return 4 * s.maxPolicySize }

// Handler serves the API on one port: gRPC to clients that speak it, REST to
// others, and the OpenAPI document at /openapi.json. A server without TLS has to
// enable unencrypted HTTP/2 for gRPC.
func (s *Server) Handler() (http.Handler, error) {
	gateway, err := s.newGateway()
	if err != nil {
		return nil, err
	}
	rpc := s.guardedRPC(s.newGRPC())
	rest := headAsGet(systemParameters(s.guarded(routed(s.checkBody(rawPath(gateway))))))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isGRPC(r) {
			rpc.ServeHTTP(w, r)
			return
		}
		defer s.recoverREST(w, r)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		rest.ServeHTTP(w, r)
	}), nil
}

// guarded refuses what no API on the port answers.
func (s *Server) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.CheckRequest(r); err != nil {
			writeStatus(w, codeOf(status.Code(err)), err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// routed finds the call that a request is, holds its query to what that takes, and
// serves the OpenAPI document itself. The gateway sees nothing that is not in our table:
// it would let go what the table does not know.
func routed(next func(http.ResponseWriter, *http.Request, route)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		route, found := apiRoutes.find(r.Method, r.URL.EscapedPath())
		if !found {
			writeRoutingError(w, r)
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
		next(w, r, route)
	})
}

// rawPath has the gateway see the path as it was sent. It decodes what it matches,
// and would decode a second time what net/http has decoded already.
func rawPath(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.RawPath = r.URL.EscapedPath()
		next.ServeHTTP(w, r)
	})
}

func isGRPC(r *http.Request) bool {
	return r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}

// useQueryParser sets the gateway's parser, which is one for the whole process.
var useQueryParser = sync.OnceFunc(func() { runtime.SetQueryParameterParser(queryParser{})(nil) })

// newGateway maps REST onto the services. It calls them directly: a REST call is
// no second hop.
func (s *Server) newGateway() (*runtime.ServeMux, error) {
	useQueryParser()
	mux := runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, newJSON()),
		runtime.WithMarshalerOption(numericJSON, newNumericJSON()),
		runtime.WithErrorHandler(writeError),
		runtime.WithRoutingErrorHandler(routingError),
		// An escaped colon in an ID is no verb (AIP-127).
		runtime.WithUnescapingMode(runtime.UnescapingModeAllCharacters),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithOutgoingHeaderMatcher(func(string) (string, bool) { return "", false }),
	)
	ctx := context.Background()
	if err := adminpb.RegisterPolicyPreviewHandlerServer(ctx, mux, s); err != nil {
		return nil, err
	}
	return mux, adminpb.RegisterOperationsHandlerServer(ctx, mux, longrunningpb.OperationsServer(s))
}

// newJSON is proto3 JSON that refuses unknown fields and omits defaults.
func newJSON() jsonBody {
	return jsonBody{&runtime.JSONPb{
		MarshalOptions:   protojson.MarshalOptions{},
		UnmarshalOptions: protojson.UnmarshalOptions{DiscardUnknown: false},
	}}
}

// jsonBody tells what is wrong with a body in a way that survives the gateway.
type jsonBody struct{ *runtime.JSONPb }

func (j jsonBody) NewDecoder(r io.Reader) runtime.Decoder {
	decoder := j.JSONPb.NewDecoder(r)
	return runtime.DecoderFunc(func(v any) error {
		err := decoder.Decode(v)
		if err == nil || errors.Is(err, io.EOF) {
			return err
		}
		return carried{bodyError(err)}
	})
}

// Marshal writes a large answer in the background.
func (j jsonBody) Marshal(v any) (text []byte, err error) {
	background.Run(sizeOf(v), func() { text, err = j.JSONPb.Marshal(v) })
	return text, err
}

// checkBody reads a request's body before anything else looks at it, so that a
// large, broken or misplaced one is refused as what it is.
func (s *Server) checkBody(next http.Handler) func(http.ResponseWriter, *http.Request, route) {
	return func(w http.ResponseWriter, r *http.Request, route route) {
		body, err := ReadBody(w, r, s.maxBody())
		var tooLarge *http.MaxBytesError
		switch {
		case errors.As(err, &tooLarge):
			writeStatus(w, http.StatusRequestEntityTooLarge, bodyTooLarge(s.maxBody()))
		case errors.Is(err, os.ErrDeadlineExceeded):
			writeStatus(w, http.StatusRequestTimeout, bodyTooSlow())
		case err != nil:
			writeStatus(w, http.StatusBadRequest, invalidJSON("The body could not be read to its end."))
		case len(body) == 0 && route.body != "":
			writeStatus(w, http.StatusBadRequest, required(route.body, "It is the body of the call. It may be empty: {}."))
		case len(body) == 0:
			r.Body = http.NoBody
			next.ServeHTTP(w, r)
		case r.Method == http.MethodGet || r.Method == http.MethodDelete:
			writeStatus(w, http.StatusBadRequest, unexpectedBody(r.Method))
		case !IsJSON(r.Header):
			// RFC 9110, section 15.5.16.
			w.Header().Set("Accept-Encoding", "identity")
			writeStatus(w, http.StatusUnsupportedMediaType, unsupportedMediaType())
		case !json.Valid(body):
			writeStatus(w, http.StatusBadRequest, syntaxError(body))
		default:
			r.Body = io.NopCloser(bytes.NewReader(body))
			answer := &heldAnswer{ResponseWriter: w, code: http.StatusOK}
			background.Call(r.Context(), len(body), func(ctx context.Context) {
				if err := checkNumbers(route.body, body); err != nil {
					writeStatus(answer, http.StatusBadRequest, err)
					return
				}
				next.ServeHTTP(answer, r.WithContext(ctx))
			})
			answer.send()
		}
	}
}

// heldAnswer is an answer that is sent when it is whole: a client that reads slowly must
// not keep a place in the background.
type heldAnswer struct {
	http.ResponseWriter
	code int
	body bytes.Buffer
}

// WriteHeader implements http.ResponseWriter.
func (a *heldAnswer) WriteHeader(code int) { a.code = code }

// Write implements http.ResponseWriter.
func (a *heldAnswer) Write(p []byte) (int, error) { return a.body.Write(p) }

func (a *heldAnswer) send() {
	a.ResponseWriter.WriteHeader(a.code)
	_, _ = a.ResponseWriter.Write(a.body.Bytes())
}

// recoverREST turns a panic into an answer that says nothing about it.
func (s *Server) recoverREST(w http.ResponseWriter, r *http.Request) {
	if cause := recover(); cause != nil {
		s.panics.Report(r.Context(), diagnostics.PanicAPI, cause)
		writeStatus(w, http.StatusInternalServerError, internal())
	}
}

// recoverRPC is recoverREST for gRPC. It also sees to it that every error has its
// ErrorInfo.
func (s *Server) recoverRPC(
	ctx context.Context, r any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (response any, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			s.panics.Report(ctx, diagnostics.PanicAPI, cause)
			err = internal()
		}
	}()
	background.Call(ctx, sizeOf(r), func(ctx context.Context) { response, err = handle(ctx, r) })
	return response, withInfo(err)
}

// sizeOf is the size of a message, in bytes.
func sizeOf(v any) int {
	m, ok := v.(proto.Message)
	if !ok {
		return 0
	}
	return proto.Size(m)
}

func serveOpenAPI(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(adminpb.OpenAPI)
}

// codeOf maps a status to HTTP as google.rpc.Code documents it.
func codeOf(c codes.Code) int { return runtime.HTTPStatusFromCode(c) }
