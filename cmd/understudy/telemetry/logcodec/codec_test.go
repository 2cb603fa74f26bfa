package logcodec_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"
	collogspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"understudy/cmd/understudy/telemetry/logcodec"
)

// kept is a processor that keeps records.
type kept struct{ records []sdklog.Record }

func (*kept) Enabled(context.Context, sdklog.EnabledParameters) bool { return true }
func (k *kept) OnEmit(_ context.Context, r *sdklog.Record) error {
	k.records = append(k.records, r.Clone())
	return nil
}
func (*kept) Shutdown(context.Context) error   { return nil }
func (*kept) ForceFlush(context.Context) error { return nil }

// provider returns a provider whose records are kept, of a resource with so many attributes.
func (k *kept) provider(attributes int) *sdklog.LoggerProvider {
	var all []attribute.KeyValue
	for i := range attributes {
		all = append(all, attribute.String(fmt.Sprint("resource.", i), strings.Repeat("r", i)))
	}
	return sdklog.NewLoggerProvider(sdklog.WithProcessor(k), sdklog.WithAllowKeyDuplication(),
		sdklog.WithResource(resource.NewWithAttributes("https://opentelemetry.io/schemas/1.2.3", all...)))
}

// collector keeps what the SDK's exporter sends.
type collector struct {
	collogspb.UnimplementedLogsServiceServer
	exporter sdklog.Exporter
	got      chan *collogspb.ExportLogsServiceRequest
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &collector{got: make(chan *collogspb.ExportLogsServiceRequest, 1)}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(64 << 20))
	collogspb.RegisterLogsServiceServer(server, c)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	c.exporter, err = otlploggrpc.New(t.Context(), otlploggrpc.WithEndpoint(l.Addr().String()), otlploggrpc.WithInsecure())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *collector) Export(_ context.Context, r *collogspb.ExportLogsServiceRequest) (*collogspb.ExportLogsServiceResponse, error) {
	c.got <- r
	return &collogspb.ExportLogsServiceResponse{}, nil
}

// fromSDK returns what the SDK's exporter sends of records.
func (c *collector) fromSDK(t *testing.T, records []sdklog.Record) *collogspb.ExportLogsServiceRequest {
	t.Helper()
	if err := c.exporter.Export(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	return <-c.got
}

// decoded returns what the codec makes of records.
func decoded(t *testing.T, records []sdklog.Record) *collogspb.ExportLogsServiceRequest {
	t.Helper()
	data, err := logcodec.Codec{}.Marshal(logcodec.Batch(records))
	if err != nil {
		t.Fatal(err)
	}
	defer data.Free()
	out := &collogspb.ExportLogsServiceRequest{}
	if err := proto.Unmarshal(data.Materialize(), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// values are of every kind. The lengths of their messages are around those at which the length
// takes one byte more.
func values() []attribute.Value {
	text := strings.Repeat("é", 1<<20)
	out := []attribute.Value{
		{},
		attribute.BoolValue(true), attribute.BoolValue(false),
		attribute.Int64Value(0), attribute.Int64Value(-1), attribute.Int64Value(math.MinInt64), attribute.Int64Value(math.MaxInt64),
		attribute.Float64Value(0), attribute.Float64Value(-0.5), attribute.Float64Value(math.Inf(1)),
		attribute.BoolSliceValue([]bool{true, false}), attribute.BoolSliceValue(nil),
		attribute.Int64SliceValue([]int64{0, -1, 300}), attribute.Float64SliceValue([]float64{0, 1.5}),
		attribute.StringSliceValue([]string{"", "a", text[:200]}), attribute.ByteSliceValue([]byte{0, 255}), attribute.ByteSliceValue(nil),
		attribute.SliceValue(attribute.StringValue("a"), attribute.SliceValue(attribute.Int64Value(1)), attribute.Value{}),
		attribute.MapValue(attribute.String("k", "v"), attribute.String("", ""), attribute.Map("m", attribute.Bool("b", true))),
	}
	for _, n := range []int{0, 1, 60, 62, 63, 64, 8190, 8191, 8192, 1 << 19, 1 << 20} {
		out = append(out, attribute.StringValue(text[:2*n]))
	}
	for n := 118; n < 130; n++ {
		out = append(out, attribute.StringValue(strings.Repeat("n", n)))
	}
	for n := 16370; n < 16390; n++ {
		out = append(out, attribute.StringValue(strings.Repeat("n", n)))
	}
	return out
}

// TestEncodedAsTheSDKDoes compares what is on the wire with what the SDK's exporter sends.
func TestEncodedAsTheSDKDoes(t *testing.T) {
	c := newCollector(t)
	for name, record := range records() {
		t.Run(name, func(t *testing.T) {
			k := &kept{}
			logger := k.provider(3).Logger("scope", log.WithInstrumentationVersion("v1"), log.WithSchemaURL("https://schema"),
				log.WithInstrumentationAttributes(attribute.String("of", "the scope")))
			logger.Emit(record.ctx, record.Record)
			want, got := c.fromSDK(t, k.records), decoded(t, k.records)
			if !proto.Equal(got, want) {
				t.Errorf("got %.2000v\nwant %.2000v", got, want)
			}
		})
	}
}

// emitted is a record with the context that it is emitted with.
type emitted struct {
	log.Record
	ctx context.Context
}

// records :: name → record.
func records() map[string]emitted {
	traced := trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1, 2, 3}, SpanID: trace.SpanID{4, 5}, TraceFlags: trace.FlagsSampled,
	}))
	whole := emitted{ctx: traced}
	whole.SetEventName("understudy.policy.preview")
	whole.SetTimestamp(time.Unix(1_800_000_000, 17))
	whole.SetObservedTimestamp(time.Unix(1_800_000_001, 0))
	whole.SetSeverity(log.SeverityWarn)
	whole.SetSeverityText("WARN")
	before := emitted{ctx: context.Background()}
	before.SetTimestamp(time.Unix(-1, 0))
	out := map[string]emitted{"empty": {ctx: context.Background()}, "before 1970": before}
	for i, v := range values() {
		with := whole
		with.SetBody(v)
		out[fmt.Sprintf("body %d", i)] = with
		with = whole
		with.AddAttributes(attribute.KeyValue{Key: "a", Value: v}, attribute.String("after", "it"))
		out[fmt.Sprintf("attribute %d", i)] = with
	}
	for s := log.Severity(-1); s < 27; s++ {
		with := whole
		with.SetSeverity(s)
		out[fmt.Sprintf("severity %d", s)] = with
	}
	many := whole
	for i := range 200 { // above the SDK's limit
		many.AddAttributes(attribute.Int(fmt.Sprint("a", i), i))
	}
	out["many attributes"] = many
	return out
}

// TestBatches of random records, of one provider and scope.
func TestBatches(t *testing.T) {
	c, all, random := newCollector(t), values(), rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 3, 128, 1000} {
		k := &kept{}
		logger := k.provider(n).Logger("scope")
		for range n {
			var r log.Record
			r.SetTimestamp(time.Unix(random.Int64N(2_000_000_000), 0))
			r.SetBody(attribute.StringValue(strings.Repeat("b", random.IntN(2000))))
			for i := range random.IntN(30) {
				r.AddAttributes(attribute.KeyValue{Key: attribute.Key(fmt.Sprint("key", i)), Value: all[random.IntN(24)]})
			}
			logger.Emit(t.Context(), r)
		}
		if want, got := c.fromSDK(t, k.records), decoded(t, k.records); !proto.Equal(got, want) {
			t.Errorf("%d records: the messages differ", n)
		}
	}
	if got := decoded(t, nil); !proto.Equal(got, &collogspb.ExportLogsServiceRequest{}) {
		t.Errorf("no records: got %v", got)
	}
}

// TestScopesAndResources: each record has its own, in the order of the records.
func TestScopesAndResources(t *testing.T) {
	k := &kept{}
	one, other := k.provider(1), k.provider(2)
	loggers := []log.Logger{one.Logger("a"), one.Logger("b"), other.Logger("a"), one.Logger("a"), one.Logger("a"), other.Logger("")}
	var want []string
	for i, l := range loggers {
		var r log.Record
		r.SetBody(attribute.StringValue(fmt.Sprint(i)))
		l.Emit(t.Context(), r)
	}
	for i, of := range []string{"1 a", "1 b", "2 a", "1 a", "1 a", "2 "} {
		want = append(want, fmt.Sprintf("%s %d", of, i))
	}
	var got []string
	for _, r := range decoded(t, k.records).GetResourceLogs() {
		for _, s := range r.GetScopeLogs() {
			for _, l := range s.GetLogRecords() {
				got = append(got, fmt.Sprintf("%d %s %s", len(r.GetResource().GetAttributes()), s.GetScope().GetName(), l.GetBody().GetStringValue()))
			}
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestNoUTF8 costs neither the record nor its batch.
func TestNoUTF8(t *testing.T) {
	k := &kept{}
	var r log.Record
	r.SetBody(attribute.StringValue("a\xffb"))
	r.SetEventName("\xc3")
	r.AddAttributes(attribute.String("k\xff", "v\xff"), attribute.StringSlice("l", []string{"\xff"}))
	k.provider(0).Logger("\xff").Emit(t.Context(), r)
	scope := decoded(t, k.records).GetResourceLogs()[0].GetScopeLogs()[0]
	record := scope.GetLogRecords()[0]
	got := []string{
		scope.GetScope().GetName(), record.GetBody().GetStringValue(), record.GetEventName(), record.GetAttributes()[0].GetKey(),
		record.GetAttributes()[0].GetValue().GetStringValue(),
		record.GetAttributes()[1].GetValue().GetArrayValue().GetValues()[0].GetStringValue(),
	}
	if want := []string{"\uFFFD", "a\uFFFDb", "\uFFFD", "k\uFFFD", "v\uFFFD", "\uFFFD"}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestOtherMessages are encoded as gRPC's own codec does it.
func TestOtherMessages(t *testing.T) {
	want := &collogspb.ExportLogsServiceResponse{PartialSuccess: &collogspb.ExportLogsPartialSuccess{RejectedLogRecords: 1}}
	data, err := logcodec.Codec{}.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	defer data.Free()
	got := &collogspb.ExportLogsServiceResponse{}
	if err := (logcodec.Codec{}).Unmarshal(data, got); err != nil || !proto.Equal(got, want) {
		t.Errorf("got %v and %v, want %v", got, err, want)
	}
	if name := (logcodec.Codec{}).Name(); name != "proto" {
		t.Errorf("the content type is %q, want proto", name)
	}
}

// TestBuffersAreOnesOwn: what is being sent is in no other message, also of another goroutine.
func TestBuffersAreOnesOwn(t *testing.T) {
	var all sync.WaitGroup
	for g := range 8 {
		k := &kept{}
		logger := k.provider(1).Logger("scope")
		for range 50 {
			var r log.Record
			r.SetBody(attribute.StringValue(strings.Repeat(fmt.Sprint(g), 100)))
			logger.Emit(t.Context(), r)
		}
		all.Go(func() {
			for range 200 {
				checkBodies(t, decoded(t, k.records).GetResourceLogs()[0].GetScopeLogs()[0], strings.Repeat(fmt.Sprint(g), 100))
			}
		})
	}
	all.Wait()
}

func checkBodies(t *testing.T, logs *logspb.ScopeLogs, want string) {
	t.Helper()
	if n := len(logs.GetLogRecords()); n != 50 {
		t.Errorf("there are %d records, want 50", n)
	}
	for _, r := range logs.GetLogRecords() {
		if got := r.GetBody().GetStringValue(); got != want {
			t.Errorf("got the body %q, want %q", got, want)
		}
	}
}
