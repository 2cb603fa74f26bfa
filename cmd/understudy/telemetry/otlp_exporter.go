package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	sdklog "go.opentelemetry.io/otel/sdk/log"
	collogspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// otlpExporter is an exporter of the SDK whose errors say how many records a collector did
// not take: the SDK has the number in its text alone. It implements sdklog.Exporter; one
// goroutine at a time exports.
type otlpExporter struct {
	sdklog.Exporter
	// transport is the way to a collector over HTTP; nil over gRPC.
	transport http.RoundTripper
	// partly is what the answer to the latest call says of records that were not taken.
	partly *collogspb.ExportLogsPartialSuccess
}

// partialSuccess is the error of a batch that was not taken as a whole.
type partialSuccess struct {
	error
	rejected int
}

// Export exports a batch.
func (e *otlpExporter) Export(ctx context.Context, records []sdklog.Record) error {
	e.partly = nil
	err := e.Exporter.Export(ctx, validTexts(records))
	if err == nil || e.partly == nil {
		return err
	}
	return partialSuccess{err, int(e.partly.GetRejectedLogRecords())}
}

// refused returns how many of a batch's records a collector did not take, which an export
// failed for.
func refused(err error, batch int) int {
	var partly partialSuccess
	if errors.As(err, &partly) {
		return min(partly.rejected, batch)
	}
	return batch
}

// overGRPC returns an interceptor that reads the answer over gRPC.
func (e *otlpExporter) overGRPC() grpc.UnaryClientInterceptor {
	return func(
		ctx context.Context, method string, message, answer any, c *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
	) error {
		err := invoke(ctx, method, message, answer, c, options...)
		if response, ok := answer.(*collogspb.ExportLogsServiceResponse); ok && err == nil {
			e.partly = response.GetPartialSuccess()
		}
		return err
	}
}

// maxAnswer bounds what is read of an answer over HTTP, in bytes.
const maxAnswer = 1 << 20

// RoundTrip reads the answer over HTTP. It implements http.RoundTripper.
func (e *otlpExporter) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := e.transport.RoundTrip(request)
	if err != nil || answer.StatusCode/100 != 2 || answer.Header.Get("Content-Type") != "application/x-protobuf" {
		return answer, err
	}
	content, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading the collector's answer: %w", err), answer.Body.Close())
	}
	response := &collogspb.ExportLogsServiceResponse{}
	if proto.Unmarshal(content, response) == nil { // otherwise the SDK says so
		e.partly = response.GetPartialSuccess()
	}
	answer.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(content), answer.Body), answer.Body}
	return answer, nil
}
