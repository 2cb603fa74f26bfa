package rest_test

import (
	"context"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"understudy/admin"
	"understudy/admin/rest"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/testkit"
)

// nodesOf is a store that notes how many processors Go has while an operation asks for
// the nodes that it waits for.
type nodesOf struct {
	admin.Store
	processors chan int
}

func (s nodesOf) Nodes(ctx context.Context, l authz.Location) ([]admin.NodeReport, error) {
	select {
	case s.processors <- runtime.GOMAXPROCS(0):
	default:
	}
	return s.Store.Nodes(ctx, l)
}

// TestALargeWriteWaitsWithoutAProcessor: a call with a large policy gives up its place in
// the background while it waits for the nodes, by REST and by gRPC.
func TestALargeWriteWaitsWithoutAProcessor(t *testing.T) {
	set := runtime.GOMAXPROCS(0)
	runtime.SetDefaultGOMAXPROCS()
	defer runtime.GOMAXPROCS(set)
	usual := runtime.GOMAXPROCS(0)
	store := nodesOf{newBoltStore(t), make(chan int, 1)}
	server, err := admin.NewServer(admin.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := rest.New(rest.Config{Services: server})
	if err != nil {
		t.Fatal(err)
	}
	edge := httptest.NewUnstartedServer(handler)
	edge.Config.Protocols = bothProtocols()
	edge.Start()
	t.Cleanup(edge.Close)
	module := "package large\n# " + strings.Repeat("x", 128<<10)
	must(t, edge, "POST", edgeLocation+"/policies?policyId=rest", `{"modules":{"large.rego":"package large\n# `+strings.Repeat("x", 128<<10)+`"}}`)
	if got := testkit.Receive(t, "the store to be asked for its processors", store.processors); got != usual {
		t.Errorf("REST waits with %d processors for Go, want %d", got, usual)
	}
	client := adminpb.NewPolicyPreviewClient(dialRPC(t, edge.Listener.Addr().String(), grpc.WithAuthority("localhost")))
	if _, err := client.CreatePolicy(t.Context(), &adminpb.CreatePolicyRequest{
		Parent: edgeLocation[len("/v1/"):], PolicyId: "rpc", Policy: &adminpb.Policy{Modules: map[string]string{"large.rego": module}},
	}); err != nil {
		t.Fatal(err)
	}
	if got := testkit.Receive(t, "the store to be asked for its processors", store.processors); got != usual {
		t.Errorf("gRPC waits with %d processors for Go, want %d", got, usual)
	}
}
