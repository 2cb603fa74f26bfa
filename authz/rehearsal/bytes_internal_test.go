package rehearsal

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	oparego "github.com/open-policy-agent/opa/v1/rego"
	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	parser "understudy/authz/extauthz/body"
	"understudy/authz/extauthz/checktest"
	"understudy/authz/extauthz/input"
	"understudy/authz/rehearsal/decisionrequest"
	"understudy/authz/rehearsal/supervisor"
	"understudy/authz/rehearsal/supervisor/supervisortest"
	"understudy/authz/rehearsal/wire"
	"understudy/cmd/testkit"
	"understudy/rego"
)

// seeing is a policy whose decision shows what it has read of a request: the value of a term.
type seeing struct {
	term string
	// parsed and truncated say that a body which does not parse, or whose length does not, is a
	// request that does not parse to this policy.
	parsed, truncated bool
	// complete says that nothing may be left out of the bytes that cross.
	complete bool
}

// seeings read everything, the body in each way, and parts without it.
var seeings = []seeing{
	{term: "input", parsed: true, truncated: true, complete: true},
	{term: "input.parsed_body", parsed: true, complete: true},
	{term: "input.parsed_body.amount", parsed: true, complete: true},
	{term: "input.truncated_body", truncated: true, complete: true},
	{term: "input.attributes.request.http.body", complete: true},
	{term: "input.attributes.request.http.rawBody", complete: true},
	{term: "input.attributes.request.http", complete: true},
	{term: "[input.parsed_path, input.parsed_query, input.attributes.request.http.path, time.now_ns()]"},
	{term: "[input.attributes.request.http.method, input.attributes.request.http.headers, input.attributes.request.http.size]"},
	{term: "input.attributes.request.http.headers.authorization"},
	{term: "input.attributes.metadataContext.filterMetadata"},
	{term: "[input.attributes.source, input.attributes.contextExtensions, input.version]"},
}

// policy is undefined where the term is.
func (s seeing) policy() *adminpb.Policy {
	return &adminpb.Policy{
		Rules:   []*adminpb.PolicyRule{{RuleId: "main", Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
		Modules: map[string]string{"a.rego": s.module()},
	}
}

func (s seeing) module() string {
	return "package envoy.authz\nallow := {\"allowed\": true, \"seen\": seen} if seen := " + s.term
}

// bad is what of a request does not parse.
type bad int

const (
	nothingBad bad = iota
	badTarget
	// badLength is of who says how long the body is, or what it is; badBody is the body itself.
	badLength
	badBody
)

// reaches reports whether what is bad in a request is read.
func (s seeing) reaches(b bad) bool {
	return b == badTarget || b == badLength && (s.parsed || s.truncated) || b == badBody && s.parsed
}

// moment is the time of all requests here.
var moment = time.Unix(1_700_000_000, 5)

// unusual is a field that nobody knows: a request with it is decoded in full.
const unusual = "\xfa\x7f\x01x"

// oracle is OPA with its defaults, on whole input documents. They are made by the full decode,
// which other tests hold against a reading of the specification.
type oracle struct {
	seeing
	query oparego.PreparedEvalQuery
}

func newOracle(t testing.TB, s seeing) oracle {
	t.Helper()
	query, err := oparego.New(oparego.Query("data.envoy.authz.allow"), oparego.Module("a.rego", s.module())).PrepareForEval(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return oracle{s, query}
}

// decide returns the value of the rule, or the failure that there is in its place.
func (o oracle) decide(t *testing.T, w whole) (value any, failure authz.Failure) {
	t.Helper()
	if o.reaches(w.bad) {
		return nil, w.failure
	}
	results, err := o.query.Eval(t.Context(), oparego.EvalInput(w.document), oparego.EvalTime(moment))
	switch {
	case err != nil:
		return nil, authz.FailureError
	case len(results) == 0:
		return nil, authz.FailureUndefined
	}
	return results[0].Expressions[0].Value, ""
}

// whole is the whole input document of a request, without what is bad.
type whole struct {
	sent     string
	document any
	bad      bad
	// failure is why there is no document.
	failure authz.Failure
}

// wholes decodes requests in full. Those of which nothing is rehearsed, since they are none, are
// left out.
func wholes(t testing.TB, sent []string) (out []whole) {
	t.Helper()
	reader := newReader(t)
	for _, wire := range sent {
		r, _, err := reader.ReadString(wire + unusual)
		if err != nil {
			continue
		}
		w := whole{sent: wire}
		made, err := r.Source(nil)
		if err != nil {
			w.failure = authz.Unreadable(err).Failure
			if made, err = r.WithoutBody(nil, false); err != nil {
				w.bad = badTarget
			} else if short, err := r.WithoutBody(nil, true); err != nil {
				w.bad = badLength
			} else {
				w.bad, w.document = badBody, documentIn(t, short)
			}
		}
		if w.bad != badTarget && w.document == nil {
			w.document = documentIn(t, made)
		}
		out = append(out, w)
	}
	return out
}

func documentIn(t testing.TB, made rego.Input) any {
	t.Helper()
	document, err := made.Document()
	if err != nil {
		t.Fatal(err)
	}
	return document
}

func newReader(t testing.TB) *input.Reader {
	t.Helper()
	messages, err := parser.NewMessages(checktest.HealthService())
	if err != nil {
		t.Fatal(err)
	}
	return &input.Reader{Bodies: parser.Parser{Messages: messages}}
}

// crossing decides requests by one policy: in this process, and in the rehearsal process by what
// crosses.
type crossing struct {
	live   *authz.Policy
	remote *supervisor.RemotePolicy
	reader *input.Reader
}

func newCrossing(t testing.TB, process *supervisor.Supervisor, p *adminpb.Policy) crossing {
	t.Helper()
	live, err := authz.Compile(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	remote := process.NewRemotePolicy(p, supervisor.Options{Name: "experiment"})
	t.Cleanup(remote.Close)
	if err := remote.Compiled(); err != nil {
		t.Fatal(err)
	}
	return crossing{live, remote, newReader(t)}
}

// read reads a request as the front does.
func (c crossing) read(t testing.TB, sent string) *authz.Request {
	t.Helper()
	r, _, err := c.reader.Read([]byte(sent))
	if err != nil {
		t.Fatal(err)
	}
	r.ID, r.Time = "id", moment
	return r
}

// here decides a request by the live policy.
func (c crossing) here(ctx context.Context, r *authz.Request) authz.Decision {
	return c.live.Decide(ctx, r, authz.Conditions{Shadow: true, Bodies: authz.NewBodyMemory(0)})
}

// there decides it by what crosses, and returns that too.
func (c crossing) there(t testing.TB, r *authz.Request) (authz.Decision, wire.DecisionRequest) {
	t.Helper()
	q, err := decisionrequest.Maker{Timeout: time.Hour, Bodies: authz.NewBodyMemory(0)}.Of(r, c.live.MayReadBody())
	if err != nil {
		t.Fatal(err)
	}
	return c.answer(t, q), q
}

// answer is the decision of the rehearsal process on a request.
func (c crossing) answer(t testing.TB, q wire.DecisionRequest) authz.Decision {
	t.Helper()
	answers := make(chan authz.Decision, 1)
	c.ask(t, func() (wire.DecisionRequest, bool) { return q, true }, func(d authz.Decision, err error) {
		if err != nil {
			d = authz.Failed(authz.FailureRehearsal, err.Error())
		}
		answers <- d
	})
	return testkit.Receive(t, "the decision", answers)
}

func (c crossing) ask(t testing.TB, prepare func() (wire.DecisionRequest, bool), done func(authz.Decision, error)) {
	t.Helper()
	if err := c.remote.Decide(supervisor.DecisionRequest{Prepare: prepare, Done: done}); err != nil {
		t.Fatal(err)
	}
}

// bodied are requests with bodies of each type, whole and broken, small ones and such as may be
// left out, in each way in which they are sent.
func bodied() (out []*authv3.CheckRequest) {
	long := strings.Repeat("x", 5000)
	message := func(text string) string {
		field := append(binary.AppendUvarint([]byte{0x0a}, uint64(len(text))), text...)
		return string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(field)))) + string(field)
	}
	part := func(text string) string {
		return "--B\r\nContent-Disposition: form-data; name=\"amount\"\r\n\r\n" + text + "\r\n"
	}
	bodies := map[string][]string{
		"application/json": {
			`{"amount": 7}`, `{"amount": 1.0, "note": "` + long + `"}`, "{", `{"note": "` + long, "{}{}", "", "[1e400]", `"\ud800"`, "null",
			"[" + strings.Repeat("1,", 60_000) + "1]",
		},
		"application/x-www-form-urlencoded":          {"amount=7&amount=8", "amount=" + long, "amount=%zz", "a;b", "amount=%zz" + long},
		"multipart/form-data; boundary=B":            {part("7") + "--B--\r\n", part(long) + "--B--\r\n", part(long), "--B\r\nContent", "nothing"},
		"application/grpc":                           {message("shop"), message(long), message(long)[:4000], message("shop")[:6], "\x00", "\x01" + message(long)[1:], "\x00\x00\x00\x00\x01\xff"},
		"text/plain":                                 {"text", long, "\xff" + long},
		"application/json, text/plain":               {"{}", long},
		"Application/JSON; charset=utf-8":            {`{"amount": {"a": [1, null]}}`},
		"application/octet-stream; amount=\"\\\"7\"": {long},
	}
	for _, contentType := range slices.Sorted(maps.Keys(bodies)) {
		for _, content := range bodies[contentType] {
			for _, more := range []map[string]string{
				{}, {"content-length": fmt.Sprint(len(content))}, {"content-length": "100000"}, {"content-length": "many"},
				{"x-envoy-auth-partial-body": "true"},
			} {
				headers := map[string]string{"content-type": contentType, "authorization": "Bearer x", ":path": "/unused"}
				for name, value := range more {
					headers[name] = value
				}
				http := func() *authv3.AttributeContext_HttpRequest {
					return &authv3.AttributeContext_HttpRequest{
						Method: "POST", Path: "/grpc.health.v1.Health/Check?a=b", Headers: headers, Size: int64(len(content)),
					}
				}
				asBytes, asText := http(), http()
				asBytes.RawBody, asText.Body = []byte(content), strings.ToValidUTF8(content, "?")
				out = append(out, checktest.HTTP(asBytes), checktest.HTTP(asText))
			}
		}
	}
	return out
}

// sentRequests are requests as bytes: of a real Envoy, of the test data, at random, with bodies,
// and with what the lazy decoder leaves to the full decode.
func sentRequests(t testing.TB) (out []string) {
	t.Helper()
	for i, request := range append(checktest.Seeds(t), bodied()...) {
		sent, err := proto.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		if out = append(out, string(sent)); i%7 == 0 {
			out = append(out, string(sent)+unusual)
		}
	}
	for seed := range uint64(200) {
		out = append(out, string(checktest.RandomWire(t, seed)))
	}
	return out
}

// TestBytesAreDecidedAsTheWholeDocument: the rehearsal process decides a request by its bytes as
// OPA does by the whole input document, and as this process does, failures included. Under the race
// detector it decides a tenth of the requests.
func TestBytesAreDecidedAsTheWholeDocument(t *testing.T) {
	sent := sentRequests(t)
	rand.New(rand.NewPCG(1, 15)).Shuffle(len(sent), func(i, j int) { sent[i], sent[j] = sent[j], sent[i] })
	requests, failures, leftOut := wholes(t, sent[:testkit.RaceCases(len(sent))]), make(map[authz.Failure]int), 0
	process := supervisortest.Reading(t, checktest.HealthService(), 0)
	for _, s := range seeings {
		t.Run(s.term, func(t *testing.T) {
			oracle, c := newOracle(t, s), newCrossing(t, process, s.policy())
			for i, whole := range requests {
				value, failure := oracle.decide(t, whole)
				r := c.read(t, whole.sent)
				got, q := c.there(t, r)
				check, ok := q.Asked.(wire.Check)
				if !ok || s.complete && string(check) != whole.sent {
					t.Fatalf("request %d: %T crosses, want all that was sent", i, q.Asked)
				}
				if len(check) < len(whole.sent) {
					leftOut++
				}
				if failures[failure]++; got.Failure != failure || checktest.Difference(value, got.Value) != "" {
					t.Fatalf("request %d: got %+v; want %q, %v\n%q", i, got, failure, value, whole.sent)
				}
				q.Plain = true
				if again := c.answer(t, q); !authz.SameDecision(again, got) || checktest.Difference(got.Value, again.Value) != "" {
					t.Fatalf("request %d: of the whole input, got %+v; want %+v\n%q", i, again, got, whole.sent)
				}
				if want := c.here(t.Context(), r); !authz.SameDecision(want, got) {
					t.Fatalf("request %d: got %+v; the live process decides %+v\n%q", i, got, want, whole.sent)
				}
			}
		})
	}
	least := 500
	if testkit.Race {
		least = 30
	}
	t.Log(len(requests), failures, leftOut)
	for _, failure := range []authz.Failure{"", authz.FailureRequest, authz.FailureUndefined} {
		if failures[failure] < least {
			t.Errorf("only %d decisions are of the kind %q", failures[failure], failure)
		}
	}
	if leftOut < least {
		t.Errorf("of %d requests alone the body is left out", leftOut)
	}
}

// FuzzBytes has the rehearsal process decide whatever the front takes for a request: as this
// process does.
func FuzzBytes(f *testing.F) {
	for i, sent := range sentRequests(f) {
		if len(sent) < 2000 {
			f.Add([]byte(sent), uint8(i))
		}
	}
	process := supervisortest.Reading(f, checktest.HealthService(), 0)
	var crossings []crossing
	for _, s := range seeings {
		crossings = append(crossings, newCrossing(f, process, s.policy()))
	}
	f.Fuzz(func(t *testing.T, sent []byte, which uint8) {
		c := crossings[int(which)%len(crossings)]
		if _, _, err := c.reader.Read(sent); err != nil {
			return
		}
		r := c.read(t, string(sent))
		want := c.here(t.Context(), r)
		got, q := c.there(t, r)
		q.Plain = true
		for _, d := range []authz.Decision{got, c.answer(t, q)} {
			if !authz.SameDecision(want, d) || checktest.Difference(want.Value, d.Value) != "" {
				t.Errorf("got %+v, want %+v", d, want)
			}
		}
	})
}
