package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"
)

// listenReport is what a server of this program reports of itself, as one line of JSON on
// standard error. Ports are chosen by the system, so that runs do not collide; startOwn
// reads the line. The names are those of understudy's own line.
type listenReport struct {
	Authz   string `json:"authz"`
	Metrics string `json:"health"`
}

// newServer is how this program starts itself as the servers to compare with. They are
// processes of their own, since processor time and memory are measured by process.
func newServer() *cobra.Command {
	return &cobra.Command{
		Use:    "server noop | server stock POLICY",
		Short:  "Be one of the servers to compare with",
		Hidden: true,
		Args:   cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "noop" {
				return serveCheck(cmd.Context(), noop{})
			}
			if len(args) < 2 {
				return fmt.Errorf("the file of the policy is missing")
			}
			s, err := newStock(cmd.Context(), args[1])
			if err != nil {
				return err
			}
			return serveCheck(cmd.Context(), s)
		},
	}
}

// serveCheck serves ext_authz with the defaults of grpc-go, and the metrics of the Go
// runtime, on any ports, until ctx is done. No option of gRPC is set on purpose: it is
// what anybody gets who registers a service. The allocations of a check come from these
// metrics.
func serveCheck(ctx context.Context, s authv3.AuthorizationServer) error {
	rpc, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	metrics, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	defer context.AfterFunc(ctx, server.Stop)()
	authv3.RegisterAuthorizationServer(server, s)
	if err := json.NewEncoder(os.Stderr).Encode(listenReport{rpc.Addr().String(), metrics.Addr().String()}); err != nil {
		return err
	}
	http.Handle("/metrics", promhttp.Handler())
	go func() { _ = http.Serve(metrics, nil) }()
	return server.Serve(rpc)
}
