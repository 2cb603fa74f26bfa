package reservation_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"understudy/authz"
	"understudy/cmd/testkit"
)

// TestEndsAreNotifications holds on-end to 204 whatever the policy makes of it (Z-33).
// One that cannot be loaded is asked about it by no policy, and that is logged.
func TestEndsAreNotifications(t *testing.T) {
	for name, module := range map[string]string{
		"denies": `allow := {"allowed": false, "reason": "no"}`, "undefined": `allow if input.nothing`, "wrong": `allow := 7`,
		"broken": "allow := nonsense(", "conflict": "allow := true if input.lease\nallow := false if input.context",
	} {
		t.Run(name, func(t *testing.T) {
			s, _, decisions := deciding(t, live(module))
			p := serve(t, s, nil)
			if got := (call{path: "/v1/on-end", body: fixture(t, "spec-on-end")}).send(t, p).StatusCode; got != 204 {
				t.Errorf("got %d", got)
			}
			if d := decisions.await(t); (d.attributes["understudy.policy.result"] == "ALLOW") != (name != "broken") {
				t.Errorf("the decision is %v", d.attributes)
			}
			if log := p.log.String(); strings.Contains(log, "it ends all the same") != (name == "broken") || strings.Contains(log, "auth_url") {
				t.Errorf("the log is %q", log)
			}
		})
	}
}

// TestEndWithoutALease is JSON that names no lease: it is no error of Blazar's API, but
// no policy is asked.
func TestEndWithoutALease(t *testing.T) {
	p := serve(t, deciderFunc(func(context.Context, *authz.Request) authz.Decision {
		t.Error("the policy is asked")
		return authz.Decision{}
	}), nil)
	for _, body := range []string{`{}`, `[]`, `{"context": {}}`, `{"context": {}, "lease": [1]}`, `{"context": {}, "lease": {"x": 1e999999999}}`} {
		if got := (call{path: "/v1/on-end", body: body}).send(t, p).StatusCode; got != 204 {
			t.Errorf("%s gets %d", body, got)
		}
	}
	if log := p.log.String(); strings.Count(log, "no policy was asked about it") != 5 {
		t.Errorf("the log is %q", log)
	}
	if got := (call{path: "/v1/on-end", body: `{"context"`}).send(t, p).StatusCode; got != 400 {
		t.Errorf("what is no JSON gets %d", got)
	}
}

// TestEndIsHandledAfterTheCallerDisconnects cancels the call while it is decided.
func TestEndIsHandledAfterTheCallerDisconnects(t *testing.T) {
	for path, outlives := range map[string]bool{"/v1/on-end": true, "/v1/check-create": false} {
		asked, gone, result := make(chan struct{}), make(chan struct{}), make(chan bool, 1)
		p := serve(t, deciderFunc(func(ctx context.Context, _ *authz.Request) authz.Decision {
			close(asked)
			if outlives {
				<-gone
			} else {
				<-ctx.Done()
			}
			result <- ctx.Err() == nil
			return authz.Decision{}
		}), nil)
		ctx, cancel := context.WithCancel(t.Context())
		request, err := http.NewRequestWithContext(ctx, "POST", p.url+path, strings.NewReader(small))
		if err != nil {
			t.Fatal(err)
		}
		request.Header = http.Header{"Content-Type": {"application/json"}, "X-Auth-Token": {token}}
		done := make(chan struct{})
		go func() {
			defer close(done)
			if response, err := http.DefaultClient.Do(request); err == nil {
				_ = response.Body.Close()
			}
		}()
		testkit.Closed(t, "the service to be asked", asked)
		cancel()
		testkit.Closed(t, "the request to end", done)
		close(gone)
		if got := testkit.Receive(t, "the service's answer", result); got != outlives {
			t.Errorf("%s: the decision goes on: %v, want %v", path, got, outlives)
		}
	}
}
