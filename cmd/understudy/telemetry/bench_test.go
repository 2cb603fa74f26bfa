package telemetry_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"

	"understudy/cmd/understudy/lifecycle"
	"understudy/cmd/understudy/telemetry"
)

// BenchmarkExport is what a preview record costs from its end to the collector's answer, by the
// protocol. The collector drops what it gets without a look at it.
func BenchmarkExport(b *testing.B) {
	for _, protocol := range protocols {
		b.Run(protocol, func(b *testing.B) {
			d := newDiscarding(b)
			b.Setenv("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", protocol)
			b.Setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", map[string]string{"grpc": d.grpc, "http/protobuf": d.http}[protocol])
			closers, logger := &lifecycle.Closers{}, slog.New(slog.DiscardHandler)
			exported, err := telemetry.New(b.Context(), telemetry.Config{Node: "bench"}, logger, closers)
			if err != nil {
				b.Fatal(err)
			}
			to, record := exported.Logs.Logger("understudy/authz"), previewRecord()
			flush := exported.Logs.(interface{ ForceFlush(context.Context) error }).ForceFlush
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				to.Emit(b.Context(), record)
				if n%4096 == 0 { // the queue is never full
					if err := flush(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
			}
			if err := closers.Close(lifecycle.NewEnding(time.Minute, nil), logger); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(d.bytes.Load())/float64(b.N), "wire-B/op")
		})
	}
}

// previewRecord is as long as those of a policy with a reason.
func previewRecord() (r log.Record) {
	r.SetEventName("understudy.policy.preview")
	r.SetTimestamp(time.Unix(1_800_000_000, 0))
	r.SetSeverity(log.SeverityInfo)
	r.SetSeverityText("INFO")
	body := "PolicyPreviewLog "
	for i := range 20 {
		text := fmt.Sprintf("projects/default/locations/local/policies/%d", i)
		body += text[:20]
		r.AddAttributes(attribute.String(fmt.Sprintf("understudy.preview.fact%d", i), text))
	}
	r.AddAttributes(attribute.Bool("understudy.preview.differs", false), attribute.Int("understudy.policy.status", 403))
	r.SetBody(attribute.StringValue(body))
	return r
}

// discarding is a collector for benchmarks.
type discarding struct {
	grpc, http string
	bytes      atomic.Int64
}

func newDiscarding(b *testing.B) *discarding {
	b.Helper()
	d := &discarding{}
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		return l
	}
	overGRPC, overHTTP := listen(), listen()
	d.grpc, d.http = "http://"+overGRPC.Addr().String(), "http://"+overHTTP.Addr().String()
	server := grpc.NewServer(grpc.ForceServerCodecV2(d), grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		if err := s.RecvMsg(nil); err != nil {
			return err
		}
		return s.SendMsg(nil)
	}))
	go func() { _ = server.Serve(overGRPC) }()
	b.Cleanup(server.Stop)
	web := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		d.bytes.Add(n)
	})}
	go func() { _ = web.Serve(overHTTP) }()
	b.Cleanup(func() { _ = web.Close() })
	return d
}

// Marshal implements encoding.CodecV2.
func (*discarding) Marshal(any) (mem.BufferSlice, error) { return nil, nil }

// Unmarshal implements encoding.CodecV2.
func (d *discarding) Unmarshal(data mem.BufferSlice, _ any) error {
	d.bytes.Add(int64(data.Len()))
	return nil
}

// Name implements encoding.CodecV2.
func (*discarding) Name() string { return "proto" }

var _ encoding.CodecV2 = (*discarding)(nil)
