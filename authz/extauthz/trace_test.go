package extauthz_test

import (
	"context"
	"net"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"go.opentelemetry.io/contrib/propagators/b3"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"understudy/authz"
	"understudy/authz/extauthz"
	"understudy/authz/extauthz/checktest"
	"understudy/authz/extauthz/servertest"
	"understudy/authz/rehearsal"
	"understudy/authz/sidecar"
	"understudy/cmd/testkit"
)

// Two spans of one trace: the client's, and Envoy's, which is its child.
const (
	traceID     = "0af7651916cd43dd8448eb211c80319c"
	clientsSpan = "b7ad6b7169203331"
	envoysSpan  = "9cd568e22088879b"
)

// TestTraceOfTheCall: Envoy puts its span into the metadata of the call. Records are in
// that span, and spans of ours below it; of a trace that is not sampled there are no
// spans, but all records.
func TestTraceOfTheCall(t *testing.T) {
	w3c := func(span, flags string) map[string]string {
		return map[string]string{"traceparent": "00-" + traceID + "-" + span + "-" + flags}
	}
	both := propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, b3.New())
	for name, tt := range map[string]struct {
		call, headers map[string]string
		propagator    propagation.TextMapPropagator
		parent        string // empty: no trace
		sampled       bool
	}{
		"of Envoy alone":      {call: w3c(envoysSpan, "01"), parent: envoysSpan, sampled: true},
		"of both":             {call: w3c(envoysSpan, "01"), headers: w3c(clientsSpan, "01"), parent: envoysSpan, sampled: true},
		"of the client alone": {headers: w3c(clientsSpan, "01"), parent: clientsSpan, sampled: true},
		"not sampled":         {call: w3c(envoysSpan, "00"), headers: w3c(clientsSpan, "01"), parent: envoysSpan},
		"that is broken":      {call: map[string]string{"traceparent": "00-0-0-01"}, headers: w3c(clientsSpan, "01"), parent: clientsSpan, sampled: true},
		"that is B3's": {
			call:       map[string]string{"x-b3-traceid": traceID, "x-b3-spanid": envoysSpan, "x-b3-sampled": "1"},
			propagator: both, parent: envoysSpan, sampled: true,
		},
		"that is B3's, in one": {call: map[string]string{"b3": traceID + "-" + envoysSpan + "-0"}, propagator: both, parent: envoysSpan},
		"of nobody":            {sampled: true},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.propagator == nil {
				tt.propagator = propagation.TraceContext{}
			}
			spans, records := tracetest.NewInMemoryExporter(), make(kept, 1)
			tracer := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)).Tracer("test")
			client := serveWire(t, recorded(t, records, extauthz.WithPropagator(tt.propagator), extauthz.WithTracer(tracer)))
			ctx := metadata.NewOutgoingContext(t.Context(), metadata.New(tt.call))
			if _, err := client.Check(ctx, checktest.HTTP(&authv3.AttributeContext_HttpRequest{Method: "GET", Headers: tt.headers})); err != nil {
				t.Fatal(err)
			}
			record := testkit.Receive(t, "the record", records)
			if got := record.TraceID().String(); tt.parent != "" && got != traceID {
				t.Errorf("the record is in the trace %s, want %s", got, traceID)
			}
			ended := spans.GetSpans()
			if !tt.sampled {
				if len(ended) != 0 {
					t.Errorf("a trace that is not sampled has %d spans", len(ended))
				}
				if got := record.SpanID().String(); got != tt.parent {
					t.Errorf("the record is in the span %s, which nobody exports; want that of the caller, %s", got, tt.parent)
				}
				return
			}
			if len(ended) != 1 || record.SpanID() != ended[0].SpanContext.SpanID() {
				t.Fatalf("%d spans, want one, with the record in it", len(ended))
			}
			if got := ended[0].Parent; tt.parent != "" && got.SpanID().String() != tt.parent || tt.parent == "" && got.IsValid() {
				t.Errorf("the parent of the span is %s, want %q", got.SpanID(), tt.parent)
			}
			about := attribute.NewSet(ended[0].Attributes...)
			for key, want := range map[attribute.Key]string{
				"rpc.system.name": "grpc", "rpc.method": "envoy.service.auth.v3.Authorization/Check", "rpc.response.status_code": "OK",
			} {
				if got, _ := about.Value(key); got.AsString() != want {
					t.Errorf("%s is %q, want %q", key, got.AsString(), want)
				}
			}
		})
	}
}

// TestRecordsWithoutATracer: where there are no spans of ours, records are in Envoy's.
func TestRecordsWithoutATracer(t *testing.T) {
	records := make(kept, 1)
	client := serveWire(t, recorded(t, records))
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-"+traceID+"-"+envoysSpan+"-00")
	for _, request := range []*authv3.CheckRequest{
		checktest.HTTP(&authv3.AttributeContext_HttpRequest{Method: "GET"}),
		checktest.HTTP(&authv3.AttributeContext_HttpRequest{HeaderMap: checktest.RawHeaders(":method", "GET")}), // decoded in full
	} {
		if _, err := client.Check(ctx, request); err != nil {
			t.Fatal(err)
		}
		if r := testkit.Receive(t, "the record", records); r.TraceID().String() != traceID || r.SpanID().String() != envoysSpan {
			t.Errorf("the record is in the span %s of %s, want Envoy's", r.SpanID(), r.TraceID())
		}
	}
}

// kept is a processor of records that keeps them.
type kept chan *sdklog.Record

func (kept) Enabled(context.Context, sdklog.EnabledParameters) bool { return true }

func (k kept) OnEmit(_ context.Context, r *sdklog.Record) error {
	k <- r
	return nil
}
func (kept) Shutdown(context.Context) error   { return nil }
func (kept) ForceFlush(context.Context) error { return nil }

// recorded is a server with an experiment whose records are kept.
func recorded(t *testing.T, records kept, options ...extauthz.Option) *extauthz.Server {
	t.Helper()
	const location = authz.Location("projects/default/locations/test")
	name := location.Policy("web")
	provider := sdklog.NewLoggerProvider(sdklog.WithProcessor(records), sdklog.WithAllowKeyDuplication())
	return servertest.New(t, servertest.Run(t, sidecar.Config{
		Scope: authz.Scope{Location: location}, Node: "test", Policy: "web",
		Experiments: sidecar.Experiments{Recorder: rehearsal.NewRecorder(provider, rehearsal.PreviewLog{})},
		Feed: servertest.PolicySet{
			Cursor:   authz.Cursor{Sequence: 1, Nonce: "n"},
			Policies: map[authz.PolicyName]authz.PolicyState{name: rehearsed(string(name), 1)},
		},
	}), options...)
}

// serveWire serves a server as the product does, on the wire, and returns a client of it.
func serveWire(t testing.TB, s *extauthz.Server) authv3.AuthorizationClient {
	t.Helper()
	server := grpc.NewServer(extauthz.ServerOption())
	extauthz.Register(server, s)
	return clientOf(t, server)
}

// serveDecoded serves a server to which gRPC hands decoded messages.
func serveDecoded(t testing.TB, s *extauthz.Server) authv3.AuthorizationClient {
	t.Helper()
	server := grpc.NewServer()
	authv3.RegisterAuthorizationServer(server, s)
	return clientOf(t, server)
}

// clientOf runs a gRPC server on a real port and returns a client of it.
func clientOf(t testing.TB, server *grpc.Server) authv3.AuthorizationClient {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := testkit.Receive(t, "the server to end", stopped); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return authv3.NewAuthorizationClient(conn)
}
