package sidecar_test

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/extservice"
	"understudy/authz/sidecar"
	"understudy/cmd/testkit"
	"understudy/rego"
)

// service is a real external service that notes what it is asked.
type service struct {
	*httptest.Server
	mu     sync.Mutex
	called []serviceCall
}

type serviceCall struct {
	method, path string
	header       http.Header
	body         map[string]any
}

// newService starts a service that answers as the test says; nil lets everything pass.
func newService(t testing.TB, answer http.HandlerFunc) *service {
	s := &service{}
	s.Server = httptest.NewServer(s.noting(t, answer))
	t.Cleanup(s.Close)
	return s
}

func (s *service) noting(t testing.TB, answer http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := serviceCall{method: r.Method, path: r.URL.Path, header: r.Header}
		content, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(content, &c.body)
		}
		if err != nil {
			t.Errorf("the service cannot read its request: %v", err)
		}
		s.mu.Lock()
		s.called = append(s.called, c)
		s.mu.Unlock()
		if answer == nil {
			answer = answers(http.StatusNoContent)
		}
		answer(w, r)
	})
}

// calls returns what the service was asked.
func (s *service) calls() []serviceCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]serviceCall{}, s.called...)
}

// authority is the host and port of the service.
func (s *service) authority() string { return strings.TrimPrefix(s.URL, "http://") }

// answers answers with a status and nothing else.
func answers(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// says answers with a status and a body.
func says(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// raw answers with bytes of its own, then closes the connection.
func raw(text string) http.HandlerFunc {
	return hijacked(func(c net.Conn) { _, _ = io.WriteString(c, text) })
}

// hijacked does something with the connection, then closes it.
func hijacked(do func(net.Conn)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		do(c)
		_ = c.Close()
	}
}

func regoRule(path string) *adminpb.PolicyRule {
	return &adminpb.PolicyRule{RuleId: path, Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{Path: path}}}
}

func lengthRule(limit time.Duration) *adminpb.PolicyRule {
	f := &adminpb.MaximumReservationLengthFilter{}
	if limit != 0 {
		f.ReservationMaxLength = durationpb.New(limit)
	}
	return &adminpb.PolicyRule{
		RuleId: "length", Filter: &adminpb.PolicyRule_MaximumReservationLength{MaximumReservationLength: f},
	}
}

func serviceRule(endpoint string, allowOnError bool) *adminpb.PolicyRule {
	return &adminpb.PolicyRule{RuleId: "service", Filter: &adminpb.PolicyRule_ExternalService{
		ExternalService: &adminpb.ExternalServiceFilter{EndpointUrl: endpoint, AllowOnError: allowOnError},
	}}
}

// rules is a policy of rules, with a module m for them.
func rules(module string, rules ...*adminpb.PolicyRule) *adminpb.Policy {
	p := &adminpb.Policy{Name: webName, Etag: "live", Rules: rules}
	if module != "" {
		p.Modules = map[string]string{"m.rego": "package m\n" + module}
	}
	return p
}

// loopbackAllowed is a configuration for services of this machine.
func loopbackAllowed() extservice.Config {
	return extservice.Config{AllowAddresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
}

// deciding runs a sidecar with a live policy and experiments that may call the
// services of this machine.
func deciding(
	t testing.TB, live *adminpb.Policy, change func(*sidecar.Config), experiments ...*adminpb.Policy,
) (*sidecar.Sidecar, *recording) {
	t.Helper()
	state := authz.PolicyState{Policy: live}
	for _, p := range experiments {
		state.Experiments = append(state.Experiments, &adminpb.PolicyExperiment{
			Name: webName + "/experiments/" + p.Etag, Etag: p.Etag, Policy: p,
		})
	}
	feed := newFeed()
	feed.put(webName, state)
	s, rec := start(t, feed, func(c *sidecar.Config) {
		c.External = loopbackAllowed()
		if change != nil {
			change(c)
		}
	})
	testkit.Closed(t, "s is ready", s.Ready())
	return s, rec
}

// noon is when the leases of these tests start.
var noon = time.Date(2020, 5, 13, 12, 0, 0, 0, time.UTC)

// lease returns what a front makes of a call about a lease of a length.
func lease(operation authz.Operation, length time.Duration) *authz.Request {
	of := func(length time.Duration) map[string]any {
		return map[string]any{
			"start_date": noon.Format(time.DateTime), "end_date": noon.Add(length).Format(time.DateTime),
			"reservations": []any{map[string]any{
				"resource_type": "physical:host", "min": json.Number("1"), "allocations": []any{map[string]any{"id": "1"}},
			}},
		}
	}
	v := &authz.Reservation{
		Context: map[string]any{"user_id": "u", "project_id": "p", "auth_url": "https://k:5000/v3", "region_name": "RegionOne"},
		Lease:   of(length), Project: "p", Start: noon, End: noon.Add(length),
	}
	if operation == authz.OperationCheckUpdate {
		v.Current = of(time.Hour)
	}
	return &authz.Request{
		ID: "id", Operation: operation, Method: strings.ReplaceAll(string(operation), "_", "-"), Time: noon, Reservation: v,
		Source: func(*authz.ReadBudget) (rego.Input, error) {
			document := map[string]any{"operation": string(operation), "context": v.Context, "lease": v.Lease}
			if v.Current != nil {
				document["current_lease"] = v.Current
			}
			return rego.NewInput(document)
		},
	}
}

// envoys returns a request of Envoy's.
func envoys(method string) *authz.Request {
	r := request(method, map[string]any{"attributes": map[string]any{
		"request": map[string]any{"http": map[string]any{"method": method, "size": 9007199254740993}},
	}})
	r.Host, r.Path, r.Principal = "shop.example", "/cart", "spiffe://x/web"
	return r
}
