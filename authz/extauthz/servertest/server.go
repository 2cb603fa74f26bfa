package servertest

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"regexp"
	"testing"
	"time"

	adminpb "understudy/admin/v1"

	"understudy/authz"
	"understudy/authz/diagnostics"
	"understudy/authz/extauthz"
	"understudy/authz/extauthz/checktest"
)

// Now is the time of all tests: a fixed one, so that expected documents can be files.
var Now = time.Unix(1_700_000_000, 123)

// Decide is a Decider that is a function.
type Decide func(ctx context.Context, r *authz.Request) authz.Decision

// Check is of extauthz.Decider.
func (d Decide) Check(ctx context.Context, r *authz.Request) authz.Decision { return d(ctx, r) }

// Alone decides by a policy, without a sidecar: without a cache, a feed or experiments.
func Alone(p *authz.Policy) Decide {
	return func(ctx context.Context, r *authz.Request) authz.Decision {
		return p.Decide(ctx, r, authz.Conditions{})
	}
}

// Constant decides always the same and does not look at the request.
func Constant(d authz.Decision) Decide {
	return func(context.Context, *authz.Request) authz.Decision { return d }
}

// ByPolicy decides by a policy of one module with the usual rule.
func ByPolicy(t testing.TB, module string) Decide {
	t.Helper()
	policy, err := Compile(module, "")
	if err != nil {
		t.Fatal(err)
	}
	return Alone(policy)
}

// Compile compiles a policy of one module that asks the rules at these paths.
func Compile(module string, paths ...string) (*authz.Policy, error) {
	p := &adminpb.Policy{Modules: map[string]string{"policy.rego": module}}
	for _, path := range paths {
		p.Rules = append(p.Rules, &adminpb.PolicyRule{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{Path: path}}})
	}
	return authz.Compile(context.Background(), p)
}

// New returns a server that knows the gRPC methods of the health service.
func New(t testing.TB, d extauthz.Decider, options ...extauthz.Option) *extauthz.Server {
	t.Helper()
	descriptors, err := extauthz.WithDescriptorSet(checktest.HealthService())
	if err != nil {
		t.Fatal(err)
	}
	clock := extauthz.WithClock(func() time.Time { return Now })
	return extauthz.New(d, append([]extauthz.Option{descriptors, clock}, options...)...)
}

// UUID is the form of a decision ID.
var UUID = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// Failing decides nothing, for one reason.
func Failing(why authz.Failure) Decide {
	return func(context.Context, *authz.Request) authz.Decision {
		return authz.Decision{Failure: why, Reason: "why"}
	}
}

// Broken is a Decider that breaks.
type Broken struct{}

// Check is of extauthz.Decider.
func (Broken) Check(context.Context, *authz.Request) authz.Decision { panic("broken") }

// Reporting is a Server that reports panics, with its log.
func Reporting(t *testing.T, d extauthz.Decider) (*extauthz.Server, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	panics, err := diagnostics.NewPanics(slog.New(slog.NewTextHandler(log, nil)), nil)
	if err != nil {
		t.Fatal(err)
	}
	return extauthz.New(d, extauthz.WithPanics(panics)), log
}

// Edited is an allow with every edit there is.
var Edited = authz.Decision{
	Effect: authz.Allow, Headers: []authz.Field{{Name: "x-user", Value: "alice"}}, RemoveHeaders: []string{"x-secret"},
	ResponseHeaders: []authz.Field{{Name: "x-decided", Value: "yes"}}, SetQuery: []authz.Field{{Name: "page", Value: "2"}},
	RemoveQuery: []string{"debug"}, Metadata: map[string]any{"tenant": "acme", "decision_id": "forged"},
}

// Refused is a denial with all that one may have.
var Refused = authz.Decision{
	HTTPStatus: 401, Body: "Who are you?", Headers: []authz.Field{{Name: "www-authenticate", Value: "Bearer"}}, Reason: "nobody",
	Metadata: map[string]any{"tenant": "acme"},
}

// Indented is a value as JSON for people.
func Indented(t testing.TB, value any) []byte {
	t.Helper()
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(value); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
