package authz_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/types/known/structpb"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/rego"
)

// decide compiles a module and decides a request whose input is empty but for the
// method GET.
func decide(t *testing.T, module string) authz.Decision {
	t.Helper()
	p, err := authz.Compile(t.Context(), policy("", module))
	if err != nil {
		t.Fatal(err)
	}
	return p.Decide(t.Context(), request("GET", nil), authz.Conditions{})
}

func TestResults(t *testing.T) {
	for _, c := range []struct {
		name, allow string
		want        authz.Decision
	}{
		{"true", `true`, authz.Decision{Effect: authz.Allow, Plain: true}},
		{"false", `false`, authz.Decision{Rule: "main", Plain: true}},
		{"object", `{"allowed": true}`, authz.Decision{Effect: authz.Allow}},
		{"headers", `{"allowed": true, "headers": {"b": ["1", "2"], "a": "x"}}`,
			authz.Decision{Effect: authz.Allow, Headers: []authz.Field{{Name: "a", Value: "x"}, {Name: "b", Value: "1"}, {Name: "b", Value: "2"}}}},
		{"arrays of headers", `{"allowed": true, "headers": [{"a": "1"}, {"a": "2"}]}`,
			authz.Decision{Effect: authz.Allow, Headers: []authz.Field{{Name: "a", Value: "1"}, {Name: "a", Value: "2"}}}},
		{"denial", `{"allowed": false, "http_status": 401, "body": "no", "headers": {"www-authenticate": "Bearer"}, "reason": "who?"}`,
			authz.Decision{Rule: "main", Reason: "who?", HTTPStatus: 401, Body: "no", Headers: []authz.Field{{Name: "www-authenticate", Value: "Bearer"}}}},
		{"the rest", `{"allowed": true, "response_headers_to_add": {"a": "b"}, "request_headers_to_remove": ["c"],
			"query_parameters_to_set": {"q": "1"}, "query_parameters_to_remove": ["r"], "dynamic_metadata": {"k": [true]}}`,
			authz.Decision{
				Effect: authz.Allow, ResponseHeaders: []authz.Field{{Name: "a", Value: "b"}}, RemoveHeaders: []string{"c"},
				SetQuery: []authz.Field{{Name: "q", Value: "1"}}, RemoveQuery: []string{"r"}, Metadata: map[string]any{"k": []any{true}},
			}},
		{"what a denial has no use for", `{"allowed": false, "request_headers_to_remove": ["c"]}`, authz.Decision{Rule: "main"}},
		{"what an allowed request has no use for", `{"allowed": true, "body": "b", "http_status": 404}`, authz.Decision{Effect: authz.Allow}},
		{"unknown fields", `{"allowed": true, "else": 1}`, authz.Decision{Effect: authz.Allow}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := decide(t, "package envoy.authz\nallow := "+c.allow)
			ignored := []cmp.Option{cmpopts.IgnoreUnexported(authz.Decision{}), cmpopts.IgnoreFields(authz.Decision{}, "Value")}
			if diff := cmp.Diff(c.want, got, ignored...); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFailuresAreDenials(t *testing.T) {
	for _, c := range []struct {
		name, module string
		want         authz.Failure
		reason       string
	}{
		{"undefined", `allow if input.nothing`, authz.FailureUndefined, "envoy/authz/allow"},
		{"a number", `allow := 1`, authz.FailureType, "a number"},
		{"a set", `allow contains "x"`, authz.FailureType, "an array"},
		{"null", `allow := null`, authz.FailureType, "null"},
		{"no allowed", `allow := {}`, authz.FailureType, "allowed"},
		{"allowed is no boolean", `allow := {"allowed": "yes"}`, authz.FailureType, "allowed"},
		{"headers is a string", `allow := {"allowed": true, "headers": "x"}`, authz.FailureType, "headers"},
		{"a header is a number", `allow := {"allowed": true, "headers": {"a": 1}}`, authz.FailureType, "headers"},
		{"a header has a line break", `allow := {"allowed": true, "headers": {"a": "b\r\nc: d"}}`, authz.FailureType, "headers"},
		{"a header has no name", `allow := {"allowed": true, "headers": {"": "b"}}`, authz.FailureType, "headers"},
		{"a header is no UTF-8", `allow := {"allowed": true, "headers": {"a": base64.decode("/w==")}}`, authz.FailureType, "headers"},
		{"a denial has a pseudo-header", `allow := {"allowed": false, "headers": {":status": "200"}}`, authz.FailureType, "headers"},
		{"a response has a pseudo-header", `allow := {"allowed": true, "response_headers_to_add": {":status": "200"}}`, authz.FailureType, "response_headers_to_add"},
		{"a parameter has no name", `allow := {"allowed": true, "query_parameters_to_set": {"": "1"}}`, authz.FailureType, "query_parameters_to_set"},
		{"an interim status", `allow := {"allowed": false, "http_status": 100}`, authz.FailureType, "http_status"},
		{"body is no string", `allow := {"allowed": false, "body": {}}`, authz.FailureType, "body"},
		{"an unknown status", `allow := {"allowed": false, "http_status": 299}`, authz.FailureType, "http_status"},
		{"an endless status", `allow := {"allowed": false, "http_status": 1e40}`, authz.FailureType, "no whole number"},
		{"a status as text", `allow := {"allowed": false, "http_status": "403"}`, authz.FailureType, "a string"},
		{"removals are no array", `allow := {"allowed": true, "request_headers_to_remove": "a"}`, authz.FailureType, "request_headers_to_remove"},
		{"a removal is no string", `allow := {"allowed": true, "request_headers_to_remove": [true]}`, authz.FailureType, "a boolean"},
		{"a removal is no name", `allow := {"allowed": true, "request_headers_to_remove": ["a b"]}`, authz.FailureType, "no header name"},
		{"half a status", `allow := {"allowed": false, "http_status": 403.5}`, authz.FailureType, "http_status"},
		{"metadata is an array", `allow := {"allowed": true, "dynamic_metadata": []}`, authz.FailureType, "dynamic_metadata"},
		{"metadata is too deep", `allow := {"allowed": true, "dynamic_metadata": {"a": ` + strings.Repeat("[", 30) + strings.Repeat("]", 30) + `}}`, authz.FailureType, "30 levels"},
		{"a number in metadata is too large", `allow := {"allowed": true, "dynamic_metadata": {"a": [1e400]}}`, authz.FailureType, "out of range"},
		{"a removed parameter has no name", `allow := {"allowed": true, "query_parameters_to_remove": [""]}`, authz.FailureType, "no parameter name"},
		{"a removed parameter is no UTF-8", `allow := {"allowed": true, "query_parameters_to_remove": [base64.decode("/w==")]}`, authz.FailureType, "no parameter name"},
		{"query is wrong", `allow := {"allowed": true, "query_parameters_to_set": {"a": {}}}`, authz.FailureType, "query_parameters_to_set"},
		{"two values", "allow := true if input.method == \"GET\"\nallow := false if input.method != \"POST\"", authz.FailureError, "conflict"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := decide(t, "package envoy.authz\n"+c.module)
			if d.Effect != authz.Deny || d.Failure != c.want || d.Result() != "ERROR" {
				t.Errorf("got %+v; want the failure %s", d, c.want)
			}
			if !strings.Contains(d.Reason, c.reason) {
				t.Errorf("the reason %q does not say %q", d.Reason, c.reason)
			}
		})
	}
}

func TestABadRequestIsDenied(t *testing.T) {
	p, err := authz.Compile(t.Context(), policy("", allowIf("true")))
	if err != nil {
		t.Fatal(err)
	}
	r := &authz.Request{Source: func(*authz.ReadBudget) (rego.Input, error) {
		return rego.Input{}, &authz.BadRequest{Reason: "The path does not parse."}
	}}
	d := p.Decide(t.Context(), r, authz.Conditions{})
	if d.Effect != authz.Deny || d.Failure != authz.FailureRequest || d.Status() != 400 || d.Reason != "The path does not parse." {
		t.Errorf("got %+v; want a denial with 400", d)
	}
}

func TestAPanicIsADenial(t *testing.T) {
	p, err := authz.Compile(t.Context(), policy("", allowIf("true")))
	if err != nil {
		t.Fatal(err)
	}
	r := &authz.Request{Source: func(*authz.ReadBudget) (rego.Input, error) { panic("broken") }}
	if d := p.Decide(t.Context(), r, authz.Conditions{}); d.Effect != authz.Deny || d.Failure != authz.FailurePanic {
		t.Errorf("got %+v; want a denial", d)
	}
}

// chain returns a policy with one rule for each rule of the module's package.
func chain(module string, paths ...string) *adminpb.Policy {
	p := &adminpb.Policy{Name: webName, Modules: map[string]string{"m.rego": "package m\n" + module}}
	for _, path := range paths {
		p.Rules = append(p.Rules, &adminpb.PolicyRule{
			RuleId: path, Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{Path: "m/" + path}},
		})
	}
	return p
}

func TestChain(t *testing.T) {
	const module = `
one := {"allowed": true, "headers": {"x": "1"}, "dynamic_metadata": {"a": 1, "b": 1}}
two := {"allowed": true, "headers": {"x": "2"}, "dynamic_metadata": {"b": 2}}
no := {"allowed": false, "reason": "no"}
never := {"allowed": false, "reason": "never"}
yes := true`
	for _, c := range []struct {
		name  string
		paths []string
		want  string
		rule  string
	}{
		{"all pass", []string{"yes", "one", "two"}, "ALLOW", ""},
		{"the first denial ends it", []string{"one", "no", "never"}, "DENY", "no"},
		{"the order counts", []string{"never", "no"}, "DENY", "never"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := authz.Compile(t.Context(), chain(module, c.paths...))
			if err != nil {
				t.Fatal(err)
			}
			d := p.Decide(t.Context(), request("GET", nil), authz.Conditions{})
			if d.Result() != c.want || d.Rule != c.rule || d.Reason != c.rule {
				t.Errorf("got %+v; want %s by %q", d, c.want, c.rule)
			}
		})
	}
	p, err := authz.Compile(t.Context(), chain(module, "one", "two"))
	if err != nil {
		t.Fatal(err)
	}
	d := p.Decide(t.Context(), request("GET", nil), authz.Conditions{})
	if diff := cmp.Diff([]authz.Field{{Name: "x", Value: "1"}, {Name: "x", Value: "2"}}, d.Headers); diff != "" {
		t.Error("headers are not merged in order:", diff)
	}
	if len(d.Metadata) != 2 {
		t.Errorf("metadata is %v; want a and b", d.Metadata)
	}
}

// TestAPolicyWithoutRulesDoesNotDecide: anyone who forgets to put the default decision
// denies.
func TestAPolicyWithoutRulesDoesNotDecide(t *testing.T) {
	empty, err := authz.Compile(t.Context(), &adminpb.Policy{Name: webName})
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]*authz.Policy{"empty": empty, "nil": nil} {
		if d := p.Decide(t.Context(), request("GET", nil), authz.Conditions{}); !p.NoOp() || !d.Default || d.Effect != authz.Deny || d.Failure != "" {
			t.Errorf("%s: got %+v; want a denial by default", name, d)
		}
	}
}

func TestARuleWithoutAnIDIsNamedByItsPlace(t *testing.T) {
	p := chain("no := false", "no")
	p.Rules[0].RuleId = ""
	compiled, err := authz.Compile(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if d := compiled.Decide(t.Context(), request("GET", nil), authz.Conditions{}); d.Rule != "rules[0]" {
		t.Errorf("the rule is %q", d.Rule)
	}
}

func TestTheClockIsTheRequests(t *testing.T) {
	p, err := authz.Compile(t.Context(), policy("", allowIf("time.now_ns() == 1000")))
	if err != nil {
		t.Fatal(err)
	}
	r := request("GET", nil)
	r.Time = time.Unix(0, 1000)
	if d := p.Decide(t.Context(), r, authz.Conditions{}); d.Effect != authz.Allow {
		t.Errorf("got %+v; want it allowed", d)
	}
}

func TestCompileErrorsNameTheField(t *testing.T) {
	rego1 := func(id, path string) *adminpb.PolicyRule {
		return &adminpb.PolicyRule{RuleId: id, Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{Path: path}}}
	}
	modules := func(text string) map[string]string { return map[string]string{"a.rego": text} }
	data, err := structpb.NewStruct(map[string]any{"envoy": map[string]any{"authz": map[string]any{"allow": true}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		policy *adminpb.Policy
		field  string
		says   string
	}{
		{"syntax", &adminpb.Policy{Modules: modules("package a\nallow if {")}, `modules["a.rego"]`, "a.rego:2:"},
		{"type", &adminpb.Policy{Modules: modules("package a\nallow if 1 + \"x\" == 2")}, `modules["a.rego"]`, "rego_type_error"},
		{"forbidden", &adminpb.Policy{Modules: modules("package a\nx := http.send({})")}, `modules["a.rego"]`, "http.send"},
		{"missing rule", &adminpb.Policy{Modules: modules("package a\nx := 1"), Rules: []*adminpb.PolicyRule{rego1("r", "")}}, "rules[0].rego.path", "envoy"},
		{"no filter", &adminpb.Policy{Rules: []*adminpb.PolicyRule{{}}}, "rules[0]", "no filter"},
		{"same ID", &adminpb.Policy{Modules: modules("package a\nx := true"), Rules: []*adminpb.PolicyRule{rego1("r", "a/x"), rego1("r", "a/x")}}, "rules[1].rule_id", "same ID"},
		{"data against a module", &adminpb.Policy{Data: data, Modules: modules("package envoy.authz\nallow := true")}, `modules["a.rego"]`, "conflict"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := authz.Compile(t.Context(), c.policy)
			var refused *authz.CompileError
			if !errors.As(err, &refused) {
				t.Fatalf("got %v; want a CompileError", err)
			}
			v := refused.Violations[0]
			if v.Field != c.field || !strings.Contains(v.Description, c.says) {
				t.Errorf("got %+v; want the field %s and a text with %q", v, c.field, c.says)
			}
		})
	}
}

func TestCompare(t *testing.T) {
	allow, deny := authz.Decision{Effect: authz.Allow}, authz.Decision{}
	for _, c := range []struct {
		name             string
		live, experiment authz.Decision
		want             authz.Difference
	}{
		{"both allow", allow, allow, authz.Unchanged},
		{"both deny", deny, deny, authz.Unchanged},
		{"403 is the default", deny, authz.Decision{HTTPStatus: 403}, authz.Unchanged},
		{"reason and rule are not seen by anyone", deny, authz.Decision{Rule: "r", Reason: "x"}, authz.Unchanged},
		{"no metadata is empty metadata", allow, authz.Decision{Effect: authz.Allow, Metadata: map[string]any{}}, authz.Unchanged},
		{"newly denied", allow, deny, authz.NewlyDenied},
		{"newly allowed", deny, allow, authz.NewlyAllowed},
		{"status", deny, authz.Decision{HTTPStatus: 401}, authz.ResponseChanged},
		{"body", deny, authz.Decision{Body: "b"}, authz.ResponseChanged},
		{"headers", allow, authz.Decision{Effect: authz.Allow, Headers: []authz.Field{{Name: "a", Value: "b"}}}, authz.ResponseChanged},
		{"metadata", allow, authz.Decision{Effect: authz.Allow, Metadata: map[string]any{"k": true}}, authz.ResponseChanged},
		{"failed", allow, authz.Decision{Failure: authz.FailureError}, authz.ExperimentFailed},
		{"neither could read the request", authz.Decision{Failure: authz.FailureRequest, HTTPStatus: 400}, authz.Decision{Failure: authz.FailureRequest, HTTPStatus: 400}, authz.Unchanged},
		{"only the experiment could not read the request", deny, authz.Decision{Failure: authz.FailureRequest, HTTPStatus: 400}, authz.ExperimentFailed},
		{"both rules are undefined", authz.Decision{Failure: authz.FailureUndefined}, authz.Decision{Failure: authz.FailureUndefined}, authz.Unchanged},
		{"both rules are in conflict", authz.Decision{Failure: authz.FailureError}, authz.Decision{Failure: authz.FailureError}, authz.Unchanged},
		{"both have a wrong type", authz.Decision{Failure: authz.FailureType}, authz.Decision{Failure: authz.FailureType}, authz.Unchanged},
		{"the same service has not answered", authz.Decision{Failure: authz.FailureExternal}, authz.Decision{Failure: authz.FailureExternal}, authz.Unchanged},
		{"both failed, and answer with another status", authz.Decision{Failure: authz.FailureExternal, HTTPStatus: 503}, authz.Decision{Failure: authz.FailureExternal}, authz.ResponseChanged},
		{"they failed otherwise", authz.Decision{Failure: authz.FailureUndefined}, authz.Decision{Failure: authz.FailureError}, authz.ExperimentFailed},
		{"only the experiment is undefined", deny, authz.Decision{Failure: authz.FailureUndefined}, authz.ExperimentFailed},
		{"the live rule is undefined, the experiment denies", authz.Decision{Failure: authz.FailureUndefined}, deny, authz.Unchanged},
		{"query", allow, authz.Decision{Effect: authz.Allow, SetQuery: []authz.Field{{Name: "a"}}}, authz.ResponseChanged},
		{"removed headers", allow, authz.Decision{Effect: authz.Allow, RemoveHeaders: []string{"a"}}, authz.ResponseChanged},
		{"a bare boolean is an object without more", authz.Decision{Plain: true}, deny, authz.Unchanged},
		{"the live one ran out of time, and would be allowed", authz.Decision{Failure: authz.FailureDeadline}, allow, authz.LiveFailed},
		{"the live one ran out of time, and would be denied", authz.Decision{Failure: authz.FailureDeadline}, deny, authz.LiveFailed},
		{"the live one panicked", authz.Decision{Failure: authz.FailurePanic}, allow, authz.LiveFailed},
		{"both ran out of time", authz.Decision{Failure: authz.FailureDeadline}, authz.Decision{Failure: authz.FailureDeadline}, authz.LiveFailed},
		{"the live one ran out of time, and the experiment is broken", authz.Decision{Failure: authz.FailureDeadline}, authz.Decision{Failure: authz.FailureError}, authz.LiveFailed},
		{"only the experiment ran out of time", deny, authz.Decision{Failure: authz.FailureDeadline}, authz.ExperimentFailed},
		{"the live rule is undefined, which denies", authz.Decision{Failure: authz.FailureUndefined}, allow, authz.NewlyAllowed},
		{"the live rules are in conflict, which denies", authz.Decision{Failure: authz.FailureError}, allow, authz.NewlyAllowed},
		{"only the live one failed", authz.Decision{Failure: authz.FailureError}, deny, authz.Unchanged},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := authz.Compare(c.live, c.experiment); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestCompileErrorsNameThePlace(t *testing.T) {
	_, err := authz.Compile(t.Context(), &adminpb.Policy{Modules: map[string]string{"a.rego": "package a\nallow if {"}})
	var refused *authz.CompileError
	if !errors.As(err, &refused) {
		t.Fatalf("got %v; want a CompileError", err)
	}
	v := refused.Violations[0]
	if v.File != "a.rego" || v.Row != 2 || v.Column == 0 || v.Code != "rego_parse_error" {
		t.Errorf("got %+v; want file, row, column and code", v)
	}
	if text := err.Error(); !strings.HasPrefix(text, `modules["a.rego"]: a.rego:2:`) {
		t.Errorf("the error is %q", text)
	}
}

func TestChainsHaveALimit(t *testing.T) {
	paths := make([]string, 101)
	for i := range paths {
		paths[i] = "yes"
	}
	p := chain("yes := true", paths...)
	for _, r := range p.Rules {
		r.RuleId = ""
	}
	_, err := authz.Compile(t.Context(), p)
	var refused *authz.CompileError
	if !errors.As(err, &refused) || refused.Violations[0].Field != "rules" {
		t.Errorf("101 rules: %v", err)
	}
	p.Rules = p.Rules[1:]
	if _, err := authz.Compile(t.Context(), p); err != nil {
		t.Errorf("100 rules: %v", err)
	}
}

// brokenContext makes the compiler panic, as a policy that it cannot stand would.
type brokenContext struct{ context.Context }

func (brokenContext) Err() error { panic("broken") }

func TestAPanicOfTheCompilerIsAnError(t *testing.T) {
	p, err := authz.Compile(brokenContext{t.Context()}, policy("", allowIf("true")))
	var refused *authz.CompileError
	if p != nil || !errors.As(err, &refused) {
		t.Errorf("got %v, %v; want a CompileError", p, err)
	}
}

func TestCompilingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := authz.Compile(ctx, policy("", allowIf("true"))); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v; want the error of the context", err)
	}
}

// FuzzResult decides by values of every kind: no panic, and a decision.
func FuzzResult(f *testing.F) {
	for _, seed := range []string{`true`, `{"allowed": true, "headers": [{"a": ["b"]}]}`, `{"allowed": false, "http_status": 1e3}`, `[]`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		p, err := authz.Compile(t.Context(), policy("", "package envoy.authz\nallow := json.unmarshal(input.value)"))
		if err != nil {
			t.Fatal(err)
		}
		d := p.Decide(t.Context(), request("GET", map[string]any{"value": value}), authz.Conditions{})
		if d.Effect == authz.Allow && d.Failure != "" {
			t.Errorf("a failure allows: %+v", d)
		}
		if d.HTTPStatus != 0 && (d.HTTPStatus < 100 || d.HTTPStatus > 599) {
			t.Errorf("the status is %d", d.HTTPStatus)
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	p, err := authz.Compile(b.Context(), policy("", allowIf(onlyGET)))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if p.Decide(b.Context(), request("GET", nil), authz.Conditions{}).Effect != authz.Allow {
			b.Fatal("denied")
		}
	}
}
