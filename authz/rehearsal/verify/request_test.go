package verify

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"go.opentelemetry.io/otel/attribute"
	"google.golang.org/protobuf/proto"

	"understudy/authz"
	"understudy/authz/cache"
	"understudy/authz/diagnostics/metrictest"
	"understudy/authz/extauthz/input"
	"understudy/authz/rehearsal/child"
	"understudy/authz/rehearsal/decisionrequest"
	"understudy/authz/rehearsal/rehearsaltest"
	"understudy/authz/rehearsal/supervisor"
	"understudy/authz/rehearsal/supervisor/supervisortest"
	"understudy/authz/rehearsal/wire"
	"understudy/rego"
)

// mistaken is a request of which evaluations and look-ups learn a wrong path, and nothing of the body.
type mistaken struct{ rego.Request }

func (m mistaken) At(path *rego.Path) (rego.Value, error) {
	if name, ok := path.Name(len(path.Keys) - 1); ok && name == "path" {
		return rego.String("/pub/1"), nil
	}
	return m.Request.At(path)
}

func (mistaken) Seal(_ *rego.Path, b []byte) []byte { return b }

// sent is a request as a sender may make it.
type sent struct {
	method, path string
	headers      map[string]string
	body, raw    string
}

// wire returns the request as Envoy sends it.
func (s sent) wire(t testing.TB) string {
	t.Helper()
	wire, err := proto.Marshal(&authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: "10.0.0.1"}}}},
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Method: s.method, Path: s.path, Headers: s.headers, Body: s.body, RawBody: []byte(s.raw),
		}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return string(wire)
}

// request returns the request, of which evaluations and look-ups learn nothing that is true.
func (s sent) request(t testing.TB) *authz.Request {
	t.Helper()
	reader := input.Reader{}
	r, _, err := reader.ReadString(s.wire(t))
	if err != nil {
		t.Fatal(err)
	}
	r.ID, r.Time = "id", time.Unix(1_700_000_000, 0)
	right := r.Parts
	r.Parts = func(reading *authz.ReadBudget) (rego.Request, error) {
		parts, err := right(reading)
		return mistaken{parts}, err
	}
	return r
}

// pathOnly reads the path alone, and withBody the body too.
const (
	pathOnly = `startswith(input.attributes.request.http.path, "/pub/")`
	withBody = `{ startswith(input.attributes.request.http.path, "/pub/"); not input.parsed_body.secret; not input.truncated_body }`
)

// strange are bodies that are read in no form, or take much to read, with their headers.
func strange() map[string]sent {
	typed := func(contentType, body string) sent {
		return sent{body: body, headers: map[string]string{"content-type": contentType}}
	}
	with := func(s sent, name, value string) sent {
		s.headers[name] = value
		return s
	}
	const json, grpc = "application/json", "application/grpc"
	return map[string]sent{
		"half of an object": typed(json, "{"),
		"two objects":       typed(json, "{}{}"),
		"a long number":     typed(json, strings.Repeat("1", 2000)),
		"no finite number":  typed(json, "1e999999999"),
		"too many values":   typed(json, "["+strings.Repeat("1,", 60_000)+"1]"),
		"many values":       typed(json, "["+strings.Repeat("1,", 49_000)+"1]"),
		"deep":              typed(json, strings.Repeat("[", 12_000)+strings.Repeat("]", 12_000)),
		"a large text":      typed(json, `"`+strings.Repeat("x", 3<<20)+`"`),
		"larger than any":   typed("text/plain", strings.Repeat("x", 17<<20)),
		"larger and JSON":   typed(json, `"`+strings.Repeat("x", 17<<20)+`"`),
		"two types":         typed("application/json, text/plain", "{}"),
		"no length":         with(typed(json, "{}"), "content-length", "no number"),
		"cut off":           with(typed(json, "{}"), "content-length", "100"),
		"cut off by Envoy":  with(typed(json, "{"), "x-envoy-auth-partial-body", "true"),
		"a bad form":        typed("application/x-www-form-urlencoded", "a=%zz;"),
		"a bad multipart":   typed("multipart/form-data", "--x"),
		"a gRPC message":    {raw: "\x00\x00\x00\x00\xff", headers: map[string]string{"content-type": grpc}},
		"bytes":             {raw: "\xff\xfe{", headers: map[string]string{"content-type": json}},
		"no type":           {body: "{"},
		"nothing":           {},
		"long headers":      {headers: map[string]string{"x": strings.Repeat("x", 1<<20)}},
	}
}

// uncaught verifies what a policy with a wrong cache decides on a request that it denies,
// after one that it allows. It returns why the mismatch was not found; empty if it was.
func uncaught(t *testing.T, v *Verifier, live *decisionrequest.Live, reader metrictest.Metrics, allowed, denied *authz.Request) string {
	t.Helper()
	if d := decide(t, live, allowed); d.Effect != authz.Allow {
		t.Fatalf("the first request gets %+v", d)
	}
	d, outcome := live.Policy.Find(t.Context(), denied)
	if large := denied.Size > 4<<20; (outcome == cache.Hit) == large {
		t.Fatalf("of a request of %d bytes the decision is looked for with the outcome %d", denied.Size, outcome)
	} else if large { // the shortcut is the projection
		d = authz.Decision{Effect: authz.Allow, Plain: true, Value: true}
	}
	v.verify(t.Context(), nil, verification{live: live, request: denied, decision: d})
	if n := mismatches(t, reader); n != 1 || !live.Policy.Compiled().Distrusted() {
		return fmt.Sprintf("%d mismatches are counted, and its shortcuts are taken: %v", n, !live.Policy.Compiled().Distrusted())
	}
	return ""
}

// TestNoRequestPreventsItsVerification: whatever the sender makes of what the policy does not
// read of a request, a wrong decision on it is found, by a second decision.
func TestNoRequestPreventsItsVerification(t *testing.T) {
	for name, s := range strange() {
		t.Run(name, func(t *testing.T) {
			v, live, reader := verifying(t, pathOnly)
			s.method, s.path = "POST", "/admin"
			if why := uncaught(t, v, live, reader, sent{method: "GET", path: "/pub/1"}.request(t), s.request(t)); why != "" {
				t.Error(why)
			}
			if n := reader.Count(t, "understudy.verifications", attribute.String("outcome", "done")); n != 1 {
				t.Errorf("%d are verified", n)
			}
		})
	}
}

// TestABodyThatIsReadPreventsNothing: of a policy that reads the body, neither what others read
// at the same time nor a body that cannot be read hides a wrong decision. One that is too
// large for the rehearsal process is not cached.
func TestABodyThatIsReadPreventsNothing(t *testing.T) {
	for name, s := range strange() {
		t.Run(name, func(t *testing.T) {
			v, live, reader := verifying(t, withBody)
			others := v.config.Requests.Bodies.Read(t.Context(), &authz.Request{})
			if err := others.Take(64 << 20); err != nil {
				t.Fatal(err)
			}
			defer others.End()
			s.method, s.path = "POST", "/admin"
			denied := s.request(t)
			if denied.Size > 4<<20 {
				if _, outcome := live.Policy.Find(t.Context(), denied); outcome != cache.NotCached {
					t.Errorf("it is looked for, with the outcome %d", outcome)
				}
				return
			}
			if why := uncaught(t, v, live, reader, sent{method: "GET", path: "/pub/1"}.request(t), denied); why != "" {
				t.Error(why)
			}
		})
	}
}

// FuzzVerification has a request of any body, with a wrong decision that was cached: the
// mismatch is found, whether the policy reads the body or not.
func FuzzVerification(f *testing.F) {
	for _, s := range strange() {
		if len(s.body) < 1000 {
			f.Add(s.headers["content-type"], s.headers["content-length"], s.headers["x-envoy-auth-partial-body"], []byte(s.body+s.raw), s.raw != "", false)
		}
	}
	f.Fuzz(func(t *testing.T, contentType, length, partial string, content []byte, raw, reads bool) {
		condition := pathOnly
		if reads {
			condition = withBody
		}
		v, live, reader := verifying(t, condition)
		s := sent{method: "POST", path: "/admin", headers: map[string]string{}}
		for name, value := range map[string]string{"content-type": contentType, "content-length": length, "x-envoy-auth-partial-body": partial} {
			if value != "" {
				s.headers[name] = strings.ToValidUTF8(value, "")
			}
		}
		if s.raw = string(content); !raw {
			s.body, s.raw = strings.ToValidUTF8(string(content), ""), ""
		}
		if why := uncaught(t, v, live, reader, sent{method: "GET", path: "/pub/1"}.request(t), s.request(t)); why != "" {
			t.Error(why)
		}
	})
}

// TestAnErrorIsAMismatch: where the first had decided, and the second ends with an error of its
// own, the decision is not the one that the whole input gives either.
func TestAnErrorIsAMismatch(t *testing.T) {
	conflict := rehearsaltest.Allowing("input.x")
	conflict.Modules["b.rego"] = "package envoy.authz\nallow := false if input.y"
	for name, before := range map[string]func(context.Context, wire.DecisionRequest){
		"a conflict": nil,
		"a panic":    func(context.Context, wire.DecisionRequest) { panic("as it may happen") },
	} {
		t.Run(name, func(t *testing.T) {
			v, live, reader := verifyingPolicy(t, conflict, slog.New(slog.DiscardHandler))
			process, err := supervisor.New(supervisor.Config{Start: supervisortest.StartWith(child.Options{Before: before})})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(process.Close)
			v.config.Live = decisionrequest.NewLivePolicies(process, 0)
			now := time.Unix(1_700_000_000, 0)
			first, second := rehearsaltest.Request(map[string]any{"x": "a"}, now), rehearsaltest.Request(map[string]any{"x": "a", "y": true}, now)
			second.Parts = first.Parts
			if why := uncaught(t, v, live, reader, first, second); why != "" {
				t.Error(why)
			}
			if n := reader.Count(t, "understudy.verifications", attribute.String("reason", "undecided")); n != 1 {
				t.Errorf("%d are counted as undecided, want 1", n)
			}
		})
	}
}

// TestWhyADecisionIsNotVerified: each reason has a series from the beginning, and there are no
// others.
func TestWhyADecisionIsNotVerified(t *testing.T) {
	failed := func(f authz.Failure) authz.Decision { return authz.Decision{Failure: f, Rule: "main"} }
	memory := noMemory(t)
	for _, tt := range []struct {
		again   authz.Decision
		err     error
		outcome verified
		reason  verifyReason
	}{
		{again: authz.Decision{}, outcome: verifyDone},
		{again: failed(authz.FailureUndefined), outcome: verifyDone},
		{again: failed(authz.FailureType), outcome: verifyDone},
		{again: failed(authz.FailureError), outcome: verifyFailed, reason: reasonUndecided},
		{again: failed(authz.FailurePanic), outcome: verifyFailed, reason: reasonUndecided},
		{again: failed(authz.FailureRequest), outcome: verifyFailed, reason: reasonUndecided},
		{again: authz.Failed(authz.FailureError, "It does not cross."), outcome: verifyFailed, reason: reasonTooLarge},
		{again: failed(authz.FailureDeadline), outcome: verifyFailed, reason: reasonDeadline},
		{again: failed(authz.FailureCanceled), outcome: verifyFailed, reason: reasonChanged},
		{again: failed(authz.FailureOverloaded), outcome: verifyFailed, reason: reasonBodyMemory},
		{err: &supervisor.CrashError{}, outcome: verifyFailed, reason: reasonProcess},
		{err: errPanicked, outcome: verifyFailed, reason: reasonPanic},
		{err: errTooLarge, outcome: verifyFailed, reason: reasonTooLarge},
		{err: supervisor.ErrQueueFull, outcome: verifyFailed, reason: reasonQueueFull},
		{err: supervisor.ErrShutdown, outcome: verifyFailed, reason: reasonShutdown},
		{err: context.Canceled, outcome: verifyFailed, reason: reasonShutdown},
		{err: supervisor.ErrChanged, outcome: verifyFailed, reason: reasonChanged},
		{err: fmt.Errorf("%w: why", supervisor.ErrUnavailable), outcome: verifyFailed, reason: reasonUnavailable},
		{err: &authz.CompileError{}, outcome: verifyFailed, reason: reasonUnavailable},
		{err: context.DeadlineExceeded, outcome: verifyFailed, reason: reasonDeadline},
		{err: memory, outcome: verifyFailed, reason: reasonBodyMemory},
	} {
		outcome, reason := outcomeOf(tt.again, tt.err)
		if outcome != tt.outcome || reason != tt.reason || !slices.Contains(verifyReasons[outcome], reason) {
			t.Errorf("%s, %v: got %s, %q; want %s, %q", tt.again.Failure, tt.err, outcome, reason, tt.outcome, tt.reason)
		}
	}
}

// noMemory is the error of a body for which there is no memory.
func noMemory(t *testing.T) error {
	t.Helper()
	m := authz.NewBodyMemory(100)
	return m.Read(t.Context(), &authz.Request{}).AtMost(10).Take(50)
}

// TestNewDecisionsReplaceThoseThatWait: who fills the queue with what takes long to verify keeps
// later decisions from being chosen no more than earlier ones.
func TestNewDecisionsReplaceThoseThatWait(t *testing.T) {
	v, live, reader := verifying(t, pathOnly)
	for i := range verifyQueue + 10 {
		r := sent{path: "/pub/1"}.request(t)
		r.ID = fmt.Sprint(i)
		v.Offer(live, r, authz.Decision{Effect: authz.Allow, Plain: true, Value: true})
	}
	huge := sent{path: "/pub/1"}.request(t)
	huge.Size = 1 << 30
	v.Offer(live, huge, authz.Decision{Effect: authz.Allow, Plain: true, Value: true})
	full, bytes := reader.Count(t, "understudy.verifications", attribute.String("reason", "queue_full")), reader.Count(t, "understudy.verifications", attribute.String("reason", "queue_bytes"))
	if full != 10 || bytes != verifyQueue {
		t.Errorf("%d and %d are shed; want the 10 that waited longest, and all for the large one", full, bytes)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	v.Run(ended)
	if n := reader.Count(t, "understudy.verifications", attribute.String("outcome", "done")); n != 1 {
		t.Errorf("%d are verified, want the large one", n)
	}
}

// TestTheWholeOfBytesIsVerified: a live decision is made again of the whole input that the bytes
// have, by a policy that can tell; and of a large body that it does not read nothing crosses.
func TestTheWholeOfBytesIsVerified(t *testing.T) {
	v, live, _ := verifying(t, pathOnly)
	for name, tt := range map[string]struct {
		s     sent
		whole bool
	}{
		"a small body": {sent{method: "POST", path: "/pub/1", body: "{}"}, true},
		"a large body": {sent{method: "POST", path: "/pub/1", body: strings.Repeat("x", 5<<20)}, false},
	} {
		r := tt.s.request(t)
		q, err := v.request(verification{live: live, request: r, decision: decide(t, live, r)})
		if err != nil {
			t.Fatal(err)
		}
		check, ok := q.Asked.(wire.Check)
		if !ok || !q.Plain || (len(check) == r.Size) != tt.whole || len(check) > r.Size {
			t.Errorf("%s: %d bytes of %d cross as %T, plainly %v", name, len(check), r.Size, q.Asked, q.Plain)
		}
	}
}
