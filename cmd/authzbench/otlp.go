package main

import (
	"context"
	"net"
	"sync/atomic"

	collogspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/grpc"
)

// receiver is a collector of OpenTelemetry logs that counts the records and drops them.
// It runs in the generator's process, on the generator's processors: what a real
// collector does with a record must not show in what the export costs the sidecar.
type receiver struct {
	collogspb.UnimplementedLogsServiceServer
	server  *grpc.Server
	address string
	records atomic.Int64
}

// startReceiver listens on any port until stop. A batch may have 64 MiB: a limit that
// is reached would make the sidecar send it again, and count as cost.
func startReceiver() (*receiver, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &receiver{server: grpc.NewServer(grpc.MaxRecvMsgSize(64 << 20)), address: l.Addr().String()}
	collogspb.RegisterLogsServiceServer(r.server, r)
	go func() { _ = r.server.Serve(l) }()
	return r, nil
}

func (r *receiver) stop() { r.server.Stop() }

// environment makes a process export its logs here: the variables of the OpenTelemetry
// specification, which the sidecar reads as any program does.
func (r *receiver) environment() []string {
	return []string{
		"OTEL_LOGS_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL=grpc", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT=http://" + r.address,
	}
}

// Export implements the collector.
func (r *receiver) Export(
	_ context.Context, request *collogspb.ExportLogsServiceRequest,
) (*collogspb.ExportLogsServiceResponse, error) {
	for _, resource := range request.GetResourceLogs() {
		for _, scope := range resource.GetScopeLogs() {
			r.records.Add(int64(len(scope.GetLogRecords())))
		}
	}
	return &collogspb.ExportLogsServiceResponse{}, nil
}
