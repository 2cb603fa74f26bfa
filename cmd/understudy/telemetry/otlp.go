package telemetry

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"slices"
	"time"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The time between two attempts to reach a collector that is away: the first wait, doubled
// up to the last. Each is varied by half, so that many sidecars do not come at once.
const (
	firstWait = 250 * time.Millisecond
	lastWait  = 3 * time.Second
)

// newLogExporter returns the exporter that the environment asks for. That of OTLP repeats
// what the collector asks to have repeated, as long as its context lasts; what else may
// come right later is for [temporary] to say.
func newLogExporter(ctx context.Context) (sdklog.Exporter, error) {
	if cmp.Or(os.Getenv("OTEL_LOGS_EXPORTER"), "otlp") != "otlp" {
		return autoexport.NewLogExporter(ctx)
	}
	switch cmp.Or(otlpVariable("PROTOCOL"), "http/protobuf") {
	case "grpc":
		return newGRPCExporter(ctx)
	case "http/protobuf":
		return newHTTPExporter(ctx)
	default:
		return nil, errors.New("OTEL_EXPORTER_OTLP_PROTOCOL: it is grpc or http/protobuf")
	}
}

// newGRPCExporter returns the SDK's exporter of OTLP over gRPC.
func newGRPCExporter(ctx context.Context) (sdklog.Exporter, error) {
	// gRPC's own waits between connections grow to two minutes.
	connect := grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: 10 * time.Second}
	connect.Backoff.BaseDelay, connect.Backoff.MaxDelay = firstWait, lastWait
	e := &otlpExporter{}
	var err error
	e.Exporter, err = otlploggrpc.New(ctx,
		otlploggrpc.WithDialOption(grpc.WithConnectParams(connect), grpc.WithChainUnaryInterceptor(e.overGRPC())),
		otlploggrpc.WithRetry(otlploggrpc.RetryConfig{Enabled: true, InitialInterval: firstWait, MaxInterval: lastWait}))
	return e, err
}

// newHTTPExporter returns the SDK's exporter of OTLP over HTTP.
func newHTTPExporter(ctx context.Context) (sdklog.Exporter, error) {
	e := &otlpExporter{transport: newTransport()}
	var err error
	e.Exporter, err = otlploghttp.New(ctx,
		otlploghttp.WithHTTPClient(&http.Client{Transport: e, Timeout: otlpTimeout()}),
		otlploghttp.WithRetry(otlploghttp.RetryConfig{Enabled: true, InitialInterval: firstWait, MaxInterval: lastWait}))
	return e, err
}

// temporary reports whether an export that failed may succeed later. The exporter of OTLP
// over HTTP gives up at once where there is no connection, and both give up when
// OTEL_EXPORTER_OTLP_TIMEOUT is over. Whatever else they return is the collector's refusal.
func temporary(err error) bool {
	var connection *url.Error
	if errors.As(err, &connection) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	var answer interface{ GRPCStatus() *status.Status }
	if !errors.As(err, &answer) {
		return false
	}
	// https://opentelemetry.io/docs/specs/otlp/#failures
	switch s := answer.GRPCStatus(); s.Code() {
	case codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.OutOfRange, codes.Unavailable, codes.DataLoss:
		return true
	case codes.ResourceExhausted: // a message that is too large is so for ever
		return slices.ContainsFunc(s.Details(), func(d any) bool { _, again := d.(*errdetails.RetryInfo); return again })
	default:
		return false
	}
}
