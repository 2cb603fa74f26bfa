package extauthz_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	adminpb "understudy/admin/v1"
)

// policyWriter writes random policies: one to three rules, each in a package of its
// own. What it writes compiles. Most of the rest is right too, for a policy whose
// every rule is wrong tests nothing but that.
type policyWriter struct{ r *rand.Rand }

// prelude is what the rules of a module may call. Some clash on purpose: two
// headers of one name are two values of one function.
const prelude = `
get(path, otherwise) := object.get(input, path, otherwise)

headers := get(["attributes", "request", "http", "headers"], {})

header(name) := headers[name]

header(name) := base64.decode(h.rawValue) if {
	some h in input.attributes.request.http.headerMap.headers
	lower(h.key) == name
}

default claims := {}

claims := payload if [_, payload, _] := io.jwt.decode(trim_prefix(header("authorization"), "Bearer "))

same(a, b) if a == b

as_is(x) := x

label(x) := "short" if count(x) < 4

else := upper(x) if startswith(x, "s")

else := x

roles contains role if some role in object.get(data.roles, object.get(claims, "sub", "nobody"), [])

roles contains role if some role in get(["attributes", "metadataContext", "filterMetadata", "jwt", "roles"], [])
`

// chainOf are the rules that a chain asks, as paths below data.
var chainOf = []string{"envoy/authz/allow", "second/gate/verdict", "third/allow"}

// policy writes a policy of one to three rules.
func (w *policyWriter) policy(t testing.TB) *adminpb.Policy {
	t.Helper()
	p := &adminpb.Policy{Modules: map[string]string{}, Data: policyData(t)}
	for i := range []int{1, 1, 1, 2, 2, 3}[w.r.IntN(6)] {
		path := strings.Split(chainOf[i], "/")
		pkg, name := strings.Join(path[:len(path)-1], "."), path[len(path)-1]
		p.Modules[fmt.Sprintf("rule%d.rego", i)] = "package " + pkg + "\n" + prelude + "\n" + w.rule(name)
		filter := &adminpb.RegoFilter{Path: chainOf[i]}
		if i == 0 && w.r.IntN(2) == 0 {
			filter.Path = "" // which means the same
		}
		p.Rules = append(p.Rules, &adminpb.PolicyRule{Filter: &adminpb.PolicyRule_Rego{Rego: filter}})
	}
	return p
}

// policyData is the data of all policies. Its numbers are such as change when they
// are written in another way.
func policyData(t testing.TB) *structpb.Struct {
	t.Helper()
	data := &structpb.Struct{}
	if err := protojson.Unmarshal([]byte(`{
		"roles": {"alice": ["admin", "reader"], "bob": ["reader"]},
		"numbers": {"million": 1000000, "half": 0.5, "tiny": 0.0000001, "huge": 123456789012345680000, "teapot": 418, "gone": 410},
		"texts": {"a": "b", "alice": "x-alice"},
		"nothing": null
	}`), data); err != nil {
		t.Fatal(err)
	}
	return data
}

// oneOf picks one of some texts.
func (w *policyWriter) oneOf(texts ...string) string { return texts[w.r.IntN(len(texts))] }

// sometimes is true once in n times.
func (w *policyWriter) sometimes(n int) bool { return w.r.IntN(n) == 0 }

// rule writes a rule in one of the forms that Rego has.
func (w *policyWriter) rule(name string) string {
	switch w.r.IntN(9) {
	case 0:
		return w.booleans(name)
	case 1, 2:
		return fmt.Sprintf("%s := %s\n", name, w.decision())
	case 3:
		return w.defaultValue(name) + fmt.Sprintf("%s := %s if {\n%s}\n", name, w.decision(), w.body())
	case 4: // two values, if both bodies hold
		return w.defaultValue(name) + fmt.Sprintf("%s := %s if {\n%s}\n\n%[1]s := %[4]s if {\n%[5]s}\n",
			name, w.decision(), w.body(), w.decision(), w.body())
	case 5:
		return fmt.Sprintf("%s := %s if {\n%s} else := %s if {\n%s} else := %s\n",
			name, w.decision(), w.body(), w.decision(), w.body(), w.decision())
	case 6:
		return w.byFunction(name)
	case 7:
		return w.partialObject(name)
	}
	if w.sometimes(3) { // an array where a decision should be
		return fmt.Sprintf("%s contains %s if {\n%s}\n", name, w.text(2), w.body())
	}
	return w.defaultValue(name) + w.booleans(name)
}

func (w *policyWriter) defaultValue(name string) string {
	if w.sometimes(2) {
		return ""
	}
	value := w.oneOf("false", "false", "true", "null", `"yes"`, `{"allowed": false}`, `{"allowed": false, "http_status": 401, "body": "who?"}`)
	return fmt.Sprintf("default %s := %s\n\n", name, value)
}

// booleans writes one to three rules that say true.
func (w *policyWriter) booleans(name string) string {
	out := ""
	for range 1 + w.r.IntN(3) {
		out += fmt.Sprintf("%s if {\n%s}\n\n", name, w.body())
	}
	return out
}

// byFunction makes the decision in a function, a helper rule and a chain of else.
func (w *policyWriter) byFunction(name string) string {
	return fmt.Sprintf(`%s := answer(user)

user := %s

answer(who) := %s if {
%s	who != ""
} else := {"allowed": who == "alice", "headers": {"x-who": who}} if {
%s}

answer(who) := false if who == ""
`, name, w.text(1), w.object(), w.body(), w.body())
}

// partialObject makes an object of rules for its fields; what is false is missing.
func (w *policyWriter) partialObject(name string) string {
	out := fmt.Sprintf("%s.allowed := %s\n\n", name, w.truth())
	for range w.r.IntN(4) {
		field := fieldNames[w.r.IntN(len(fieldNames)-1)]
		out += fmt.Sprintf("%s.%s := %s if {\n%s}\n\n", name, field, w.field(field), w.body())
	}
	if w.sometimes(2) {
		out += fmt.Sprintf("%s.dynamic_metadata[key] := value if some key, value in as_is(%s)\n", name, w.metadata())
	}
	return out
}

// body writes one to three expressions that may hold.
func (w *policyWriter) body() string {
	out := ""
	for range 1 + w.r.IntN(2) {
		out += "\t" + w.condition() + "\n"
	}
	return out
}

func (w *policyWriter) condition() string {
	switch w.r.IntN(12) {
	case 0:
		return "not " + w.truth()
	case 1:
		return fmt.Sprintf("some v%d in [%s, %s]\n\tv%[1]d != %[4]s", w.r.IntN(1000), w.text(1), w.text(1), w.text(0))
	case 2:
		return fmt.Sprintf("every v in [%s, %s] { v != %s }", w.text(1), w.text(1), w.text(0))
	case 3, 4:
		return "true"
	}
	return w.truth()
}

// truth writes an expression that is true or false, or undefined.
func (w *policyWriter) truth() string {
	switch w.r.IntN(14) {
	case 0:
		return "true"
	case 1:
		return w.text(1) + " == " + w.text(1)
	case 2:
		return w.text(1) + " != " + w.text(1)
	case 3:
		return w.number() + w.oneOf(" < ", " > ", " <= ", " == ") + w.number()
	case 4:
		return fmt.Sprintf("startswith(%s, %s)", w.text(1), w.text(0))
	case 5:
		return fmt.Sprintf("%s in %s", w.text(1), w.texts())
	case 6:
		return `"` + w.oneOf("admin", "reader", "nobody") + `" in roles`
	case 7:
		return fmt.Sprintf("count(%s) > %d", w.texts(), w.r.IntN(4))
	case 8:
		return "object.get(claims, \"exp\", 0) > time.now_ns() / 1000000000"
	case 9:
		return fmt.Sprintf("regex.match(`^[a-z/]*%s$`, %s)", w.oneOf("", "e", "[0-9]"), w.text(1))
	case 10:
		return w.oneOf("input.truncated_body", "input.parsed_body == null", "is_object(input.parsed_body)", "input.version.ext_authz == \"v3\"")
	case 11:
		return fmt.Sprintf("same(%s, %s)", w.any(1), w.any(1))
	}
	return w.oneOf(`get(["attributes", "request", "http", "method"], "") != "DELETE"`, `get(["parsed_path", 0], "") != "admin"`,
		`get(["source_principal"], "") != ""`, `input.attributes.request.http`)
}

// text writes an expression that is a string, or undefined.
func (w *policyWriter) text(depth int) string {
	if depth == 0 {
		return w.oneOf(`"alice"`, `"a"`, `"b"`, `""`, `"reader"`, `"é"`, `"a b&c=d#e"`, `"%20"`, `"x-user"`, `"1"`)
	}
	switch w.r.IntN(16) {
	case 0:
		return w.oneOf("input.parsed_path[0]", "input.parsed_query.c[0]", "input.source_principal", "input.parsed_body.a[0]",
			"input.attributes.request.http.host", "input.attributes.contextExtensions.a", `header("x-user")`)
	case 1:
		return fmt.Sprintf("concat(%s, %s)", w.oneOf(`"/"`, `""`, `", "`), w.texts())
	case 2:
		return fmt.Sprintf(`sprintf("%%v:%%v", [%s, %s])`, w.any(1), w.number())
	case 3:
		return fmt.Sprintf("json.marshal(%s)", w.any(1))
	case 4:
		return fmt.Sprintf("label(%s)", w.text(depth-1))
	case 5:
		return fmt.Sprintf("%s(%s)", w.oneOf("upper", "lower", "trim_space", "urlquery.encode", "base64.encode", "crypto.sha256"), w.text(depth-1))
	case 6:
		return `object.get(claims, "sub", "nobody")`
	case 7:
		return fmt.Sprintf("object.get(data.texts, %s, %s)", w.text(depth-1), w.text(0))
	case 8:
		return `get(["attributes", "metadataContext", "filterMetadata", "jwt", "sub"], "none")`
	case 9:
		return fmt.Sprintf(`format_int(%s, 10)`, w.number())
	case 10:
		if w.sometimes(3) { // what a header cannot carry, and what is not UTF-8
			return w.oneOf(`"a\nb"`, `urlquery.decode("%FF")`, `"\u0000"`)
		}
	case 11, 12:
		return fmt.Sprintf(`get(["attributes", "request", "http", %q], %s)`, w.oneOf("path", "method", "host", "scheme", "id", "body", "rawBody"), w.text(0))
	}
	return fmt.Sprintf(`object.get(headers, %q, %s)`, w.oneOf("x-user", "x-user", "x-limit", "x-role"), w.text(0))
}

// number writes an expression that is a number, or undefined.
func (w *policyWriter) number() string {
	return w.oneOf("0", "1", "2.5", "1e3", "403", `to_number("-7")`, "count(input.parsed_path)", "data.numbers.million", "data.numbers.huge", "data.numbers.tiny",
		"data.numbers.half * 2", `get(["attributes", "request", "http", "size"], 0)`, `get(["attributes", "request", "time", "seconds"], 0)`,
		`to_number(header("x-limit"))`, `get(["attributes", "metadataContext", "filterMetadata", "jwt", "n"], 3)`, "time.now_ns()", "1/3")
}

// texts writes an array or a set of strings.
func (w *policyWriter) texts() string {
	switch w.r.IntN(6) {
	case 0:
		return "[]"
	case 1:
		return "input.parsed_path"
	case 2:
		return "roles"
	case 3:
		return fmt.Sprintf("{%s, %s}", w.text(0), w.text(0))
	case 4:
		return "[upper(p) | some p in input.parsed_path]"
	}
	return fmt.Sprintf("[%s, %s]", w.text(1), w.text(0))
}

// any writes a value of any type.
func (w *policyWriter) any(depth int) string {
	switch w.r.IntN(12) {
	case 0:
		return "null"
	case 1:
		return w.oneOf("true", "false")
	case 2, 3:
		return w.number()
	case 4, 5:
		return w.text(1)
	case 6:
		return w.texts()
	case 7:
		return w.oneOf("input.attributes.source", "input.parsed_query", "input.parsed_body", "claims", "data.numbers", "data.nothing",
			"input.attributes.metadataContext", "input.attributes.request.time", "input.version", "input")
	}
	if depth == 0 {
		return "{}"
	}
	if w.sometimes(2) {
		return fmt.Sprintf("[%s, %s]", w.any(depth-1), w.any(depth-1))
	}
	return fmt.Sprintf(`{%s: %s, "k": %s}`, w.text(1), w.any(depth-1), w.any(depth-1))
}
