package input_test

import (
	"context"
	"reflect"
	"runtime"
	"testing"
	"time"
	"weak"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"

	"understudy/authz"
	"understudy/authz/extauthz/input"
)

// keptOf reads a request, gives it a span that holds a context, and keeps it.
func keptOf(t *testing.T, wire []byte) (kept authz.Kept, document any, span weak.Pointer[context.Context]) {
	t.Helper()
	reader := &input.Reader{}
	r, _, err := reader.Read(wire)
	if err != nil {
		t.Fatal(err)
	}
	call, cancel := context.WithCancel(context.Background())
	defer cancel()
	r.ID, r.Time = "d1", time.Unix(1_800_000_000, 0)
	r.Span = func() trace.SpanContext { return trace.SpanContextFromContext(call) }
	made, err := r.Input(nil)
	if err != nil {
		t.Fatal(err)
	}
	if document, err = made.Document(); err != nil {
		t.Fatal(err)
	}
	kept, ok := r.Keep()
	if !ok {
		t.Fatal("the request cannot be made again")
	}
	if n := r.Sent.BodySize(); n != len(`{"a": 1}`) {
		t.Errorf("the body has %d bytes, want %d", n, len(`{"a": 1}`))
	}
	return kept, document, weak.Make(&call)
}

// TestARequestIsMadeAgain keeps a request of each decoder. What is kept holds neither the
// request nor the context of its call, and gives the same request.
func TestARequestIsMadeAgain(t *testing.T) {
	for name, path := range map[string]string{"lazily": "/a?b=c", "in full": "/a%zz"} {
		t.Run(name, func(t *testing.T) {
			wire, err := proto.Marshal(&authv3.CheckRequest{Attributes: &authv3.AttributeContext{
				Source: &authv3.AttributeContext_Peer{Principal: "spiffe://x/web"},
				Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
					Method: "POST", Path: "/a?b=c", Host: "shop", Headers: map[string]string{"authorization": "secret", "content-type": "application/json"}, Body: `{"a": 1}`,
				}},
				ContextExtensions: map[string]string{"unused": path},
			}})
			if err != nil {
				t.Fatal(err)
			}
			if name == "in full" {
				wire = append(wire, 0xfa, 0x7f, 0x01, 'x') // a field that nobody knows
			}
			kept, want, call := keptOf(t, wire)
			runtime.GC()
			runtime.GC()
			if call.Value() != nil {
				t.Errorf("what is kept holds the context of the call")
			}
			if kept.Size() < len(wire) {
				t.Errorf("the size is %d, which is less than the %d bytes that were sent", kept.Size(), len(wire))
			}
			for range 2 {
				r, err := kept.Request()
				if err != nil {
					t.Fatal(err)
				}
				if r.ID != "d1" || !r.Time.Equal(time.Unix(1_800_000_000, 0)) || r.Method != "POST" || r.Path != "/a" || r.Principal != "spiffe://x/web" {
					t.Errorf("got %q at %v: %s %s by %s", r.ID, r.Time, r.Method, r.Path, r.Principal)
				}
				made, err := r.Input(nil)
				if err != nil {
					t.Fatal(err)
				}
				if got, err := made.Document(); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("got the input %v and %v, want %v", got, err, want)
				}
			}
		})
	}
}

// TestADecodedRequestIsNotMadeAgain: nothing was sent that it could be made of.
func TestADecodedRequestIsNotMadeAgain(t *testing.T) {
	r, _, err := (&input.Reader{}).Decoded(&authv3.CheckRequest{Attributes: &authv3.AttributeContext{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Keep(); ok {
		t.Error("it is kept")
	}
}
