package extauthz_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"understudy/authz/extauthz/servertest"

	"understudy/authz/extauthz/checktest"

	oparego "github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"google.golang.org/protobuf/encoding/protojson"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/rego"
)

// plainPolicy is a policy as OPA has it by default: its modules, its data read from
// JSON, and one query for each rule of the chain.
type plainPolicy struct {
	queries []oparego.PreparedEvalQuery
	// parsed and truncated say that a rule of the chain may read the body, or whether it is all there: a body
	// that nobody reads is not parsed.
	parsed, truncated bool
}

func newPlainPolicy(t testing.TB, p *adminpb.Policy) plainPolicy {
	t.Helper()
	data, err := protojson.Marshal(p.Data)
	if err != nil {
		t.Fatal(err)
	}
	out := plainPolicy{}
	for _, rule := range p.Rules {
		path := rule.GetRego().GetPath()
		if path == "" {
			path = "envoy/authz/allow"
		}
		options := []func(*oparego.Rego){
			oparego.Query("data." + strings.ReplaceAll(path, "/", ".")),
			oparego.Store(inmem.NewFromReader(strings.NewReader(string(data)))),
		}
		for file, text := range p.Modules {
			options = append(options, oparego.Module(file, text))
		}
		query, err := oparego.New(options...).PrepareForEval(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		out.queries = append(out.queries, query)
		program, err := rego.Compile(context.Background(), rego.Source{Modules: p.Modules, Data: rego.DataOf(p.Data), Paths: []string{path}})
		if err != nil {
			t.Fatal(err)
		}
		out.parsed = out.parsed || program.MayRead(path, "parsed_body")
		out.truncated = out.truncated || program.MayRead(path, "truncated_body")
	}
	return out
}

// reaches reports whether a request that does not parse is one to the policy: it looks
// at what is wrong.
func (p plainPolicy) reaches(bad checktest.Badness) bool {
	return bad == checktest.BadTarget || bad == checktest.BadLength && (p.parsed || p.truncated) || bad == checktest.BadBody && p.parsed
}

// decide asks the rules in order, up to the first that denies, for a document; ok
// is false if the request is none.
func (p plainPolicy) decide(document any, ok bool) []plainResult {
	if !ok {
		return []plainResult{{failure: authz.FailureRequest}}
	}
	var out []plainResult
	for _, query := range p.queries {
		out = append(out, plainEval(query, document))
		if !out[len(out)-1].allowed {
			break
		}
	}
	return out
}

func plainEval(query oparego.PreparedEvalQuery, document any) plainResult {
	values, err := query.Eval(context.Background(), oparego.EvalInput(document), oparego.EvalTime(servertest.Now))
	switch {
	case err != nil:
		return plainResult{failure: authz.FailureError}
	case len(values) == 0:
		return plainResult{failure: authz.FailureUndefined}
	}
	return plainResultOf(values[0].Expressions[0].Value)
}

// plainResult is the value of one rule, read by the table of the specification.
type plainResult struct {
	allowed bool
	object  map[string]any // nil for a boolean
	failure authz.Failure
	field   string // the first field that is wrong
}

// plainFields :: field of the table, in its order → whether a value is right.
var plainFields = []struct {
	name  string
	right func(allowed bool, value any) bool
}{
	{"headers", func(allowed bool, v any) bool { return plainHeaderPairs(v, allowed) }},
	{"response_headers_to_add", func(_ bool, v any) bool { return plainHeaderPairs(v, false) }},
	{"request_headers_to_remove", func(_ bool, v any) bool {
		return plainTexts(v, func(name string) bool { return plainHeaderName(name, true) })
	}},
	{"query_parameters_to_set", func(_ bool, v any) bool { return plainQueryPairs(v) }},
	{"query_parameters_to_remove", func(_ bool, v any) bool { return plainQueryNames(v) }},
	{"body", func(_ bool, v any) bool { _, ok := v.(string); return ok }},
	{"http_status", func(_ bool, v any) bool { return plainStatus(v) }},
	{"dynamic_metadata", func(_ bool, v any) bool { return plainMetadataField(v) }},
}

func plainResultOf(value any) plainResult {
	if allowed, ok := value.(bool); ok {
		return plainResult{allowed: allowed}
	}
	object, ok := value.(map[string]any)
	if !ok {
		return plainResult{failure: authz.FailureType}
	}
	allowed, ok := object["allowed"].(bool)
	if !ok {
		return plainResult{failure: authz.FailureType, field: "allowed"}
	}
	for _, f := range plainFields {
		if value, set := object[f.name]; set && !f.right(allowed, value) {
			return plainResult{failure: authz.FailureType, field: f.name}
		}
	}
	return plainResult{allowed: allowed, object: object}
}

// plainStatus is a code that ends a request and that Envoy has a name for.
func plainStatus(value any) bool {
	number, ok := value.(json.Number)
	if !ok {
		return false
	}
	code, err := number.Int64()
	_, known := plainStatusNames[int32(code)]
	return err == nil && code >= 200 && code < 1000 && known
}
