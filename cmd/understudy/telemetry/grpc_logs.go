package telemetry

import (
	"context"

	sdklog "go.opentelemetry.io/otel/sdk/log"
	"google.golang.org/grpc"

	"understudy/cmd/understudy/telemetry/logcodec"
)

// grpcLogs is the SDK's exporter of OTLP over gRPC with another encoding of the records: that
// of the SDK is half of what a record costs. All else is the SDK's: what the environment says,
// the connection, what is repeated, and what a collector's answer means. It implements
// sdklog.Exporter; one goroutine at a time exports.
type grpcLogs struct {
	sdklog.Exporter
	// counted are as many empty records as a batch has. The SDK counts them.
	counted []sdklog.Record
}

// batchKey is the key of the records that an export has.
type batchKey struct{}

// Export sends the records: sendBatch finds them in the context, below the SDK.
func (e *grpcLogs) Export(ctx context.Context, records []sdklog.Record) error {
	if len(e.counted) < len(records) {
		e.counted = make([]sdklog.Record, len(records))
	}
	return e.Exporter.Export(context.WithValue(ctx, batchKey{}, logcodec.Batch(records)), e.counted[:len(records)])
}

// sendBatch is an interceptor that sends the records of the context instead of the message.
func sendBatch(
	ctx context.Context, method string, message, answer any, c *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	batch, ok := ctx.Value(batchKey{}).(logcodec.Batch)
	if !ok {
		return invoke(ctx, method, message, answer, c, options...)
	}
	return invoke(ctx, method, batch, answer, c, append(options, grpc.ForceCodecV2(logcodec.Codec{}))...)
}
