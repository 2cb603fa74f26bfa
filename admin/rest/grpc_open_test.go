package rest_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"understudy/admin"
	"understudy/admin/access"
	"understudy/admin/apierror"
	"understudy/admin/rest"
)

// nobodyKnown is an Authenticator without credentials that are good, and an Authorizer that
// allows nothing.
type nobodyKnown struct{}

// Authenticate implements access.Authenticator.
func (nobodyKnown) Authenticate(*http.Request) (access.Principal, error) {
	return access.Principal{}, apierror.Unauthenticated("The request has no credentials.")
}

// Authorize implements access.Authorizer.
func (nobodyKnown) Authorize(_ context.Context, p access.Permission, resource string) error {
	return apierror.PermissionDenied(apierror.Permission(p), resource)
}

// Permitted implements access.Authorizer.
func (nobodyKnown) Permitted(context.Context, string, []access.Permission) ([]access.Permission, error) {
	return nil, nil
}

// TestHealthTakesLittleFromStrangers: probes need no credentials, and anyone who has none has
// the server hold no large message, compressed or not, and no call that lasts.
func TestHealthTakesLittleFromStrangers(t *testing.T) {
	server, err := admin.NewServer(admin.Config{Store: newBoltStore(t)})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := rest.New(rest.Config{Services: server, Authenticator: nobodyKnown{}, Authorizer: nobodyKnown{}})
	if err != nil {
		t.Fatal(err)
	}
	health := grpc_health_v1.NewHealthClient(dialRPC(t, serveRPC(t, handler)))
	if got, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil || got.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("a probe: got %v, %v", got, err)
	}
	large := &grpc_health_v1.HealthCheckRequest{Service: strings.Repeat("x", 8<<10)}
	for name, c := range map[string]struct {
		options []grpc.CallOption
		want    codes.Code
	}{
		"plain":      {nil, codes.InvalidArgument},
		"compressed": {[]grpc.CallOption{grpc.UseCompressor("gzip")}, codes.Unauthenticated},
	} {
		if _, err := health.Check(t.Context(), large, c.options...); status.Code(err) != c.want {
			t.Errorf("a large name, %s: got %v, want %v", name, err, c.want)
		}
	}
	stream, err := health.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("a stream that lasts: got %v, want UNAUTHENTICATED", err)
	}
}
