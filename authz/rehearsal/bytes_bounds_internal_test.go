package rehearsal

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"go.opentelemetry.io/otel/attribute"
	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/extauthz/checktest"
	"understudy/authz/rehearsal/decisionrequest"
	"understudy/authz/rehearsal/rehearsaltest"
	"understudy/authz/rehearsal/supervisor"
	"understudy/authz/rehearsal/supervisor/supervisortest"
	"understudy/authz/rehearsal/wire"
	"understudy/cmd/testkit"
	"understudy/rego/explain"
)

// posting is a POST of JSON, as bytes.
func posting(t testing.TB, content string) string {
	t.Helper()
	return asSent(t, &authv3.AttributeContext_HttpRequest{
		Method: "POST", Path: "/orders", Host: "shop", Headers: map[string]string{"content-type": "application/json"}, Body: content,
	})
}

// asking is a request, as bytes.
func asking(t testing.TB, method, path, body string) string {
	t.Helper()
	return asSent(t, &authv3.AttributeContext_HttpRequest{Method: method, Path: path, Body: body})
}

// asSent is a request as Envoy sends it.
func asSent(t testing.TB, http *authv3.AttributeContext_HttpRequest) string {
	t.Helper()
	sent, err := proto.Marshal(checktest.HTTP(http))
	if err != nil {
		t.Fatal(err)
	}
	return string(sent)
}

// TestTheProcessBoundsWhatItReads: of bodies, by the bound of live decisions and what is left of
// it for work off the request path, so that each request fails as it would have in this process.
func TestTheProcessBoundsWhatItReads(t *testing.T) {
	const limit = 100 << 10
	process := supervisortest.Reading(t, nil, limit)
	c := newCrossing(t, process, seeing{term: "input.parsed_body"}.policy())
	failures := make(map[authz.Failure]int)
	for round := range 3 { // what was taken is given back
		for values := 1; values < 300; values += 37 {
			sent := posting(t, "["+strings.Repeat("1,", values)+"1]")
			r := c.read(t, sent)
			reading := authz.NewBodyMemory(limit).ReadOffPath(t.Context(), r)
			want := c.live.Decide(t.Context(), r, authz.Conditions{Shadow: true, Reading: reading})
			got, _ := c.there(t, c.read(t, sent))
			if failures[got.Failure]++; !authz.SameDecision(want, got) {
				t.Errorf("round %d, %d values: got %+v, want %+v", round, values, got, want)
			}
		}
	}
	for _, failure := range []authz.Failure{"", authz.FailureOverloaded, authz.FailureRequest} {
		if failures[failure] == 0 {
			t.Errorf("no decision is of the kind %q: %v", failure, failures)
		}
	}
}

// TestALiveDecisionIsVerifiedWithAllTheMemory that it had, and an examination gets what is left for
// comparisons.
func TestALiveDecisionIsVerifiedWithAllTheMemory(t *testing.T) {
	policy := seeing{term: "count(input.parsed_body)"}.policy()
	c := newCrossing(t, supervisortest.Reading(t, nil, 12<<20), policy)
	listed := make(chan wire.Listed, 1)
	if err := c.remote.Items(rehearsaltest.Packed(t, rehearsaltest.Allowing("true")), func(l wire.Listed, _ error) { listed <- l }); err != nil {
		t.Fatal(err)
	}
	pending := supervisor.Pending(testkit.Receive(t, "the items", listed).Digest, []byte{0xff})
	for values, most := range map[int]authz.Failure{10: "", 16_000: authz.FailureOverloaded, 30_000: authz.FailureRequest} {
		got, q := c.there(t, c.read(t, posting(t, "["+strings.Repeat("1,", values-1)+"1]")))
		q.Plain = true
		again := c.answer(t, q)
		if want := strings.ReplaceAll(string(most), string(authz.FailureOverloaded), ""); got.Failure != most || string(again.Failure) != want {
			t.Errorf("%d values: a comparison fails with %q, a verification with %q; want %q and %q", values, got.Failure, again.Failure, most, want)
		}
		q.Plain = false
		prepare, examined := supervisor.Examination{Prepare: func() (wire.DecisionRequest, bool) { return q, true }}, make(chan error, 2)
		err := errors.Join(
			c.remote.Trace("envoy/authz/allow", false, prepare, func(_ explain.Trace, err error) { examined <- err }),
			c.remote.Show(func() []byte { return pending }, prepare, func(_ wire.Shown, err error) { examined <- err }),
		)
		if err != nil {
			t.Fatal(err)
		}
		if traced, shown := testkit.Receive(t, "an examination to end", examined), testkit.Receive(t, "an examination to end", examined); (traced == nil) != (most == "") || (shown == nil) != (most == "") {
			t.Errorf("%d values: examinations end with %v and %v", values, traced, shown)
		}
	}
}

// TestWhatThereIsNoMemoryForIsDropped, as before the bytes crossed: it is no difference.
func TestWhatThereIsNoMemoryForIsDropped(t *testing.T) {
	p := rehearsaltest.Allowing("input.parsed_body[0] == 1")
	r := rehearse(t, supervisortest.Reading(t, nil, 100<<10), p, p)
	for i, values := range []int{1, 150} {
		c := r.comparing(t, newCrossing(t, r.shadow.config.Process, p).read(t, posting(t, "["+strings.Repeat("1,", values)+"1]")))
		r.shadow.one(&c.job, r.experiment)
		r.shadow.underWay.Wait()
		if n := r.experiment.Candidate.metrics.dropped[DropBodyMemory]; n != int64(i) {
			t.Errorf("of %d values: %d comparisons are dropped for memory, want %d", values, n, i)
		}
		if n := r.reader.Count(t, "understudy.preview.comparisons", attribute.String("difference", "UNCHANGED")); n != 1 {
			t.Errorf("of %d values: %d comparisons are made, want 1", values, n)
		}
	}
}

// TestBytesThatAreNoCheckAreDenied: the front never sends such, and nothing allows them.
func TestBytesThatAreNoCheckAreDenied(t *testing.T) {
	c := newCrossing(t, supervisortest.New(t), rehearsaltest.Allowing("true"))
	for _, sent := range []wire.Check{"", "\x0a", "\x0a\x05x", wire.Check(strings.Repeat("\xff", 100))} {
		d := c.answer(t, wire.DecisionRequest{ID: "id", Time: moment, Timeout: time.Hour, Asked: sent})
		if d.Failure != authz.FailureRequest || d.Effect != authz.Deny {
			t.Errorf("%q: got %+v, want BAD_REQUEST", sent, d)
		}
	}
}

// calling notes what a service is asked.
type calling struct{ asked []string }

func (c *calling) Call(_ context.Context, to *url.URL, body []byte, _ bool) authz.ServiceReply {
	c.asked = append(c.asked, to.String(), string(body))
	return authz.ServiceReply{Outcome: authz.ServiceDenies, Message: "no"}
}

func (*calling) Reused(context.Context) {}

// TestServicesAreAskedTheSame: method, host, path, principal and attributes of a request are in
// its bytes; so is the project, by which it may be exempt.
func TestServicesAreAskedTheSame(t *testing.T) {
	p := &adminpb.Policy{ExemptedProjects: []string{"free"}, Rules: []*adminpb.PolicyRule{{
		RuleId: "s", Filter: &adminpb.PolicyRule_ExternalService{ExternalService: &adminpb.ExternalServiceFilter{EndpointUrl: "https://usage.example.com"}},
	}}}
	c := newCrossing(t, supervisortest.New(t), p)
	for project, calls := range map[string]int{"free": 0, "other": 1} {
		request := checktest.Istio()
		request.Attributes.ContextExtensions = map[string]string{"project_id": project}
		sent, err := proto.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		r, here := c.read(t, string(sent)), &calling{}
		want := c.live.Decide(t.Context(), r, authz.Conditions{Shadow: true, Services: here})
		there, answers := &calling{}, make(chan authz.Decision, 1)
		q, err := decisionrequest.Maker{Timeout: time.Hour, Bodies: authz.NewBodyMemory(0)}.Of(r, c.live.MayReadBody())
		if err != nil {
			t.Fatal(err)
		}
		err = c.remote.Decide(supervisor.DecisionRequest{
			Prepare: func() (wire.DecisionRequest, bool) { return q, true },
			Call:    decisionrequest.Answers(func(to *url.URL, body []byte) authz.ServiceReply { return there.Call(t.Context(), to, body, false) }),
			Done:    func(d authz.Decision, _ error) { answers <- d },
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := testkit.Receive(t, "the decision", answers); !authz.SameDecision(want, got) {
			t.Errorf("%s: got %+v, want %+v", project, got, want)
		}
		if len(here.asked) != 2*calls || !slices.Equal(here.asked, there.asked) {
			t.Errorf("%s: the service is asked %q, want %q", project, there.asked, here.asked)
		}
	}
}

// TestNothingIsParsedHere: a comparison of a policy that reads the body takes none of the memory
// for bodies in this process, and what waits holds what was sent alone.
func TestNothingIsParsedHere(t *testing.T) {
	c := newCrossing(t, supervisortest.New(t), seeing{term: "input.parsed_body"}.policy())
	sent := posting(t, `{"a": [1, 2, 3]}`)
	r := c.read(t, sent)
	full := authz.NewBodyMemory(1) // no body can be read
	q, err := decisionrequest.Maker{Timeout: time.Hour, Bodies: full}.Of(r, c.live.MayReadBody())
	if err != nil {
		t.Fatal(err)
	}
	payload, err := wire.AppendDecisionRequest(nil, q)
	if err != nil || !bytes.HasSuffix(payload, []byte(sent)) || len(payload) > len(sent)+64 {
		t.Errorf("got %d bytes and %v; want the %d that were sent, and little more", len(payload), err, len(sent))
	}
	if r.Held() != len(sent) {
		t.Errorf("the request holds %d bytes, want the %d that were sent", r.Held(), len(sent))
	}
}

// TestABlameByBytes: of the rules of a policy the one is named that decides in two ways, and none
// where all decide in one, whatever body the request has.
func TestABlameByBytes(t *testing.T) {
	policy := func(second string) *adminpb.Policy {
		p := rehearsaltest.Allowing(`input.attributes.request.http.method == "POST"`)
		p.Modules["b.rego"] = "package b\nallow if " + second
		p.Rules = append(p.Rules, &adminpb.PolicyRule{RuleId: "second", Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{Path: "b/allow"}}})
		return p
	}
	process := supervisortest.New(t)
	for _, tt := range []struct{ second, want string }{
		{`rand.intn(input.attributes.request.http.path, 2) == 1`, "second"},
		{`input.attributes.request.http.path == "/orders"`, ""},
		{"not input.parsed_body.secret", ""},
	} {
		c := newCrossing(t, process, policy(tt.second))
		blamed := make(map[string]int)
		for i := range 60 {
			content := []string{"{}", "{", "[" + strings.Repeat("1,", 60_000) + "1]"}[i%3]
			q, err := decisionrequest.Maker{Timeout: time.Hour}.Of(c.read(t, posting(t, content)), true)
			if err != nil {
				t.Fatal(err)
			}
			q.Plain = true
			answers := make(chan wire.Blamed, 1)
			err = c.remote.Blame(func() (wire.DecisionRequest, bool) { return q, true }, func(b wire.Blamed, err error) {
				if err != nil {
					t.Error(err)
				}
				answers <- b
			})
			if err != nil {
				t.Fatal(err)
			}
			blamed[testkit.Receive(t, "the decision", answers).Rule]++
		}
		if len(blamed) > 2 || tt.want != "" && blamed[tt.want] == 0 || blamed["main"] != 0 || tt.want == "" && blamed[""] != 60 {
			t.Errorf("%s: blamed are %v, want %q alone", tt.second, blamed, tt.want)
		}
	}
}
