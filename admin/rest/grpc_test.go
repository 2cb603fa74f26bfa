package rest_test

import (
	"context"
	"net"
	"net/http"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"understudy/admin"
	"understudy/admin/rest"
	adminpb "understudy/admin/v1"
	"understudy/cmd/testkit"
)

// newRPCEdge serves the API by gRPC on a port, to localhost and the names of hosts.
func newRPCEdge(t *testing.T, hosts ...string) (string, *rest.API) {
	t.Helper()
	server, err := admin.NewServer(admin.Config{Store: newBoltStore(t)})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := rest.New(rest.Config{Services: server, Guard: rest.Guard{Hosts: append([]string{}, hosts...)}})
	if err != nil {
		t.Fatal(err)
	}
	return serveRPC(t, handler), handler
}

// serveRPC serves a handler by both versions of HTTP, and returns where.
func serveRPC(t *testing.T, handler http.Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: handler, Protocols: bothProtocols()}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close(); testkit.Closed(t, "the server to end", done) })
	return l.Addr().String()
}

// bothProtocols are those of REST and gRPC, without TLS.
func bothProtocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

func dialRPC(t *testing.T, addr string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(addr, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestHealthOfServices: each service of the port is SERVING until it drains, and no other
// is known (grpc.health.v1).
func TestHealthOfServices(t *testing.T) {
	addr, server := newRPCEdge(t)
	health := grpc_health_v1.NewHealthClient(dialRPC(t, addr))
	check := func(service string) (grpc_health_v1.HealthCheckResponse_ServingStatus, error) {
		response, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
		return response.GetStatus(), err
	}
	own := []string{"", "understudy.admin.v1.PolicyPreview", "google.longrunning.Operations", "grpc.health.v1.Health"}
	for _, service := range own {
		if got, err := check(service); err != nil || got != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("%q is %v, %v", service, got, err)
		}
	}
	_, err := check("nope")
	info := false
	for _, d := range status.Convert(err).Details() {
		_, isInfo := d.(*errdetails.ErrorInfo)
		info = info || isInfo
	}
	if status.Code(err) != codes.NotFound || !info {
		t.Errorf("an unknown service: %v", err)
	}
	server.Drain()
	for _, service := range own {
		if got, err := check(service); err != nil || got != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
			t.Errorf("%q, drained, is %v, %v", service, got, err)
		}
	}
}

// TestBrowsersPagesByGRPC: the rule of REST holds for calls and streams of gRPC.
func TestBrowsersPagesByGRPC(t *testing.T) {
	addr, _ := newRPCEdge(t, "admin.example.com")
	for name, tt := range map[string]struct {
		authority string
		headers   []string
		want      string
	}{
		"a program":               {},
		"localhost":               {authority: "localhost:8181"},
		"a name that is allowed":  {authority: "admin.example.com"},
		"a rebound name":          {authority: "evil.example.com", want: "FOREIGN_HOST"},
		"a page of another site":  {headers: []string{"origin", "https://evil.example.com"}, want: "FOREIGN_ORIGIN"},
		"what the browser marks":  {headers: []string{"sec-fetch-site", "cross-site"}, want: "FOREIGN_ORIGIN"},
		"a page of the same host": {authority: "localhost:8181", headers: []string{"origin", "http://localhost:8181"}},
	} {
		t.Run(name, func(t *testing.T) {
			var options []grpc.DialOption
			if tt.authority != "" {
				options = append(options, grpc.WithAuthority(tt.authority))
			}
			conn := dialRPC(t, addr, options...)
			ctx := metadata.NewOutgoingContext(t.Context(), metadata.Pairs(tt.headers...))
			_, err := adminpb.NewPolicyPreviewClient(conn).ListPolicies(ctx, &adminpb.ListPoliciesRequest{Parent: "projects/p/locations/l"})
			checkRefused(t, "a call", err, tt.want)
			_, err = reflected(ctx, conn)
			checkRefused(t, "a stream", err, tt.want)
		})
	}
}

func reflected(ctx context.Context, conn *grpc.ClientConn) (*grpc_reflection_v1.ServerReflectionResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		return nil, err
	}
	// A stream that is refused may be over before: Recv has the reason.
	_ = stream.Send(&grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}})
	return stream.Recv()
}

func checkRefused(t *testing.T, what string, err error, want string) {
	t.Helper()
	got := ""
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			got = info.Reason
		}
	}
	if got != want || (err != nil) != (want != "") {
		t.Errorf("%s: %v, want %q", what, err, want)
	}
	if want != "" && status.Code(err) != codes.PermissionDenied {
		t.Errorf("%s has the code %v", what, status.Code(err))
	}
}
