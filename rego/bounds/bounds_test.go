package bounds_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/metrics"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/topdown/builtins"

	"understudy/cmd/testkit"
	"understudy/rego"
	"understudy/rego/bounds"
	"understudy/rego/compile"
)

// unreachable are the built-ins that no policy may call; see the capabilities of package
// rego.
var unreachable = []string{ast.HTTPSend.Name, ast.NetLookupIPAddr.Name, ast.OPARuntime.Name}

// TestEveryBuiltinIsJudged fails when a new version of OPA has a built-in that nobody has
// put into one of the groups.
func TestEveryBuiltinIsJudged(t *testing.T) {
	names := bounds.Names()
	for _, b := range ast.CapabilitiesForThisVersion().Builtins {
		want := 1
		if slices.Contains(unreachable, b.Name) {
			want = 0
		}
		if got := bounds.Judged(b.Name); got != want {
			t.Errorf("%s is in %d of the groups free, bounded and replaced, want %d", b.Name, got, want)
		}
		names = slices.DeleteFunc(names, func(name string) bool { return name == b.Name })
	}
	if len(names) > 0 {
		t.Errorf("there are no such built-ins: %v", names)
	}
}

// eval evaluates p.x of a module, with ten seconds of time.
func eval(t testing.TB, module string, input map[string]any) (rego.Result, error) {
	t.Helper()
	p, err := rego.Compile(context.Background(), rego.Source{
		Modules: map[string]string{"m.rego": "package p\n" + module}, Paths: []string{"p/x"},
	})
	if err != nil {
		t.Fatal(err)
	}
	in, err := rego.NewInput(input)
	if err != nil {
		t.Fatal(err)
	}
	// It is for what has no bound at all: how long others take depends on the machine.
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	return p.Eval(ctx, "p/x", in, time.Unix(1_700_000_000, 0))
}

// large is an input with values that no built-in should be given all of.
func large() map[string]any {
	graph := map[string]any{}
	var clique []any
	for i := range 14 {
		clique = append(clique, fmt.Sprint("n", i))
	}
	for _, name := range clique {
		graph[name.(string)] = clique
	}
	var many []any
	for i := range 60_000 {
		many = append(many, fmt.Sprint(i*7919%60_000))
	}
	return map[string]any{
		"text": strings.Repeat("aé", 350_000), "ascii": strings.Repeat("a", 1_000_000), "graph": graph, "many": many,
		"certificate": longKey(), "nodes": []any{"n0"}, "number": json.Number(strings.Repeat("9", 19_000)), "deep": nested(3000),
	}
}

func nested(depth int) (out any) {
	out = map[string]any{}
	for range depth {
		out = map[string]any{"a": out}
	}
	return out
}

// longKey is a certificate with an RSA key of 16,384 bits.
func longKey() string {
	issuer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	n := new(big.Int).Lsh(big.NewInt(1), 16383)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &rsa.PublicKey{N: n.SetBit(n, 0, 1), E: 65537}, issuer)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// TestLongGlobsAreBounded: without any repetition, too, they are taken apart.
func TestLongGlobsAreBounded(t *testing.T) {
	got, err := eval(t, "x := regex.globs_match(input.ascii, input.ascii)", large())
	var failed *rego.EvalError
	if !errors.As(err, &failed) || failed.Code != bounds.Code {
		t.Errorf("%v, %v; want the bound of regex.globs_match", got.Defined, err)
	}
}

// TestUsualKeysAreFine: a chain of certificates and a key of 4,096 bits, and a token with
// keys for ten issuers.
func TestUsualKeysAreFine(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 4096)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	input := map[string]any{
		"certificate": certificate, "chain": certificate + certificate,
		"key": string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})),
	}
	for _, call := range []string{
		`crypto.x509.parse_and_verify_certificates(input.chain)`,
		`io.jwt.decode_verify(encoded, {"cert": input.certificate})[0]`,
		`crypto.x509.parse_keypair(input.certificate, input.key)`,
		`crypto.parse_private_keys(input.key)`,
	} {
		module := `key := crypto.x509.parse_rsa_private_key(input.key)
encoded := io.jwt.encode_sign({"alg": "RS256"}, {"iss": "me"}, key)
x if ` + call
		if got, err := eval(t, module, input); err != nil || !got.Defined {
			t.Errorf("%s: %v, %v; want a value", call, got.Defined, err)
		}
	}
}

// TestBeyondTheBound has, for each way in which the cost is computed, a call that goes
// beyond the bound: it fails as a whole and names the built-in, wherever it is called.
func TestBeyondTheBound(t *testing.T) {
	input := large()
	for name, call := range map[string]string{
		"bits.lsh":                         `bits.lsh(1, 65537)`,
		"numbers.range":                    `numbers.range(1, 1000000000)`,
		"numbers.range_step":               `numbers.range_step(0, 1e300, 2)`,
		"mul":                              `input.number * input.number * 2`,
		"product":                          `product(numbers.range(10000, 30000))`,
		"to_number":                        `to_number(concat("", ["0.", sprintf("%030000d", [1])]))`,
		"strings.render_template":          `strings.render_template("{{range .a}}{{range $.a}}{{range $.a}}xx{{end}}{{end}}{{end}}", {"a": numbers.range(1, 2000)})`,
		"json.patch":                       `json.patch({"a": 1}, [{"op": "copy", "from": "", "path": sprintf("/x%d", [i])} | some i in numbers.range(1, 60)])`,
		"graph.reachable_paths":            `graph.reachable_paths(input.graph, input.nodes)`,
		"split":                            `split(input.ascii, "")`,
		"concat":                           `concat("", [input.ascii, input.ascii, input.ascii, input.ascii, input.ascii])`,
		"sprintf":                          `sprintf("%[1]s%[1]s%[1]s%[1]s%[1]s", [input.ascii])`,
		"replace":                          `replace(input.ascii, "a", "aaaaaaa")`,
		"strings.replace_n":                `strings.replace_n({"a": "bbbbbbbb"}, input.ascii)`,
		"internal.template_string":         `$"{input.ascii}{input.ascii}{input.ascii}{input.ascii}{input.ascii}"`,
		"trim":                             `trim(input.text, input.text)`,
		"indexof":                          `indexof(input.text, input.text)`,
		"indexof_n":                        `indexof_n(input.ascii, "aa")`,
		"glob.match":                       `glob.match(input.ascii, [], input.ascii)`,
		"regex.globs_match":                `regex.globs_match("a*b*a*b*a*b*a*b*a*b*a*b*c", "[ab]*[ab][ab]*[ab][ab]*[ab][ab]*[ab]d*")`,
		"regex.match":                      `regex.match("(x+x+)+y|((a|b){1,10}){10}c", input.ascii)`,
		"regex.is_valid":                   `regex.is_valid(concat("", ["((", substring(input.ascii, 0, 1000), "){1000})"]))`,
		"regex.split":                      `regex.split("a", input.ascii)`,
		"regex.find_n":                     `regex.find_n("a", input.ascii, -1)`,
		"regex.find_all_string_submatch_n": `regex.find_all_string_submatch_n("(a)(b)?", input.ascii, -1)`,
		"regex.replace":                    `regex.replace(input.ascii, "a", "aaaaaaaa")`,
		"yaml.unmarshal":                   `yaml.unmarshal(input.ascii)`,
		"json.unmarshal":                   `json.unmarshal(concat("", ["[", concat(",", split(substring(input.ascii, 0, 80000), "")), ",", concat(",", split(substring(input.ascii, 0, 80000), "")), "]"]))`,
		"json.marshal_with_options":        `json.marshal_with_options(input.deep, {"indent": substring(input.ascii, 0, 1000)})`,
		"net.cidr_expand":                  `net.cidr_expand("10.0.0.0/8")`,
		"net.cidr_contains_matches":        `net.cidr_contains_matches(input.many, input.many)`,
		"base64.encode":                    `base64.encode(concat("", [input.ascii, input.ascii, input.ascii]))`,
		"object.subset":                    `object.subset(array.concat(numbers.range(1, 10000), input.nodes), numbers.range(1, 10000))`,
		"rego.parse_module":                `rego.parse_module("a", input.ascii)`,
		"json.verify_schema":               `json.verify_schema({"pattern": "((a|b){1,30}){1,30}c", "properties": {"a": {"pattern": concat("", ["(", substring(input.ascii, 0, 1000), "){1000}"])}}})`,
		"json.match_schema":                `json.match_schema({"a": 1}, {"allOf": [{"$ref": "#"}]})`,
		"graphql.is_valid":                 `graphql.is_valid(concat("", ["{", concat("", ["a{c} " | some _ in numbers.range(1, 1000)]), "}"]), "type Query { a: T } type T { c: Int }")`,
		"graphql.parse_query":              `graphql.parse_query(input.ascii)`,
		"sort":                             `sort(array.concat(input.many, [1]))`,
		"or":                               `{[a, 3000 - a] | some a in numbers.range(1, 3000)} | {1}`,
		"object.union":                     `object.union({"a": input.many}, {"b": input.many})`,
		"io.jwt.decode":                    `io.jwt.decode(input.ascii)`,
		"crypto.x509.parse_certificates":   `crypto.x509.parse_certificates(input.ascii)`,
		"units.parse":                      `units.parse(input.ascii)`,
		"strings.any_prefix_match":         `strings.any_prefix_match(input.many, input.many)`,
		"io.jwt.verify_rs256":              `io.jwt.verify_rs256(sprintf("a.b.%s", [substring(input.ascii, 0, 8000)]), substring(input.ascii, 0, 8000))`,
		"io.jwt.decode_verify":             `io.jwt.decode_verify("a.b.c", {"cert": input.ascii})[0]`,
		"io.jwt.encode_sign":               `io.jwt.encode_sign({"alg": "RS256"}, {}, {"kty": "RSA", "n": substring(input.ascii, 0, 4000)})`,
		"io.jwt.encode_sign_raw":           `io.jwt.encode_sign_raw("{}", input.ascii, "{}")`,
		"crypto.parse_private_keys":        `crypto.parse_private_keys(substring(input.ascii, 0, 20000))`,
		"crypto.x509.parse_keypair":        `crypto.x509.parse_keypair("a", substring(input.ascii, 0, 20000))`,
		"crypto.x509.parse_and_verify_certificates":              `crypto.x509.parse_and_verify_certificates(input.certificate)[0]`,
		"crypto.x509.parse_and_verify_certificates_with_options": `crypto.x509.parse_and_verify_certificates_with_options(base64.encode(input.certificate), {})[0]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, module := range []string{"x := " + call, "x if not f(1)\nf(_) if " + call} {
				got, err := eval(t, module, input)
				var failed *rego.EvalError
				if !errors.As(err, &failed) || failed.Code != bounds.Code || !strings.HasPrefix(failed.Message, name+": ") {
					t.Errorf("%s: %v, %v; want the bound of %s", module, got.Defined, err, name)
				}
			}
		})
	}
}

// TestBinaryExponentsAreBounded: to_number makes a number of this text, with which OPA would compute for years.
func TestBinaryExponentsAreBounded(t *testing.T) {
	for _, number := range []string{"0x1p-2000000000", "0X1P-0000000000000020000000", "-0x1.8p-2_000_000_000"} {
		got, err := eval(t, "x := to_number(input.n) * 3", map[string]any{"n": number})
		var failed *rego.EvalError
		if got.Defined || err != nil && (!errors.As(err, &failed) || failed.Code != bounds.Code) {
			t.Errorf("%s: %v, %v; want the bound of to_number", number, got, err)
		}
	}
}

// TestShortOperandsAreFine: whatever is short is within the bound of each built-in that looks at sizes, also a text that
// begins or ends like a number.
func TestShortOperandsAreFine(t *testing.T) {
	r := mathrand.New(mathrand.NewPCG(1, 1))
	words := []string{"health", "reports", "yesterday", "default", "note5", "reference99999", "user@example.com", "never ends", "1e5x", "p-17", "e", "1e", "xE+", ""}
	text := func() string {
		if r.IntN(2) == 0 {
			return words[r.IntN(len(words))]
		}
		out := make([]byte, r.IntN(20))
		for i := range out {
			out[i] = "aeEpPx0189+-._ /"[r.IntN(16)]
		}
		if _, err := strconv.ParseFloat(string(out), 64); err == nil { // such as 1e-9999
			return "e"
		}
		return string(out)
	}
	operand := func() *ast.Term {
		switch r.IntN(6) {
		case 0:
			return ast.IntNumberTerm(r.IntN(100))
		case 1:
			return ast.BooleanTerm(true)
		case 2:
			return ast.ArrayTerm(ast.StringTerm(text()), ast.IntNumberTerm(3))
		}
		return ast.StringTerm(text())
	}
	for _, b := range ast.CapabilitiesForThisVersion().Builtins {
		if bounds.Judged(b.Name) == 0 || b.Decl == nil {
			continue
		}
		for range testkit.Cases(500) {
			operands := make([]*ast.Term, len(b.Decl.FuncArgs().Args))
			for i := range operands {
				operands[i] = operand()
			}
			call := topdown.GetBuiltin(b.Name)
			if call == nil { // it is none for evaluations
				break
			}
			err := call(topdown.BuiltinContext{Context: t.Context(), Capabilities: compile.Capabilities, Time: ast.IntNumberTerm(1), Seed: rand.Reader, Cache: builtins.Cache{}, Metrics: metrics.New()}, operands, func(*ast.Term) error { return nil })
			var failed *topdown.Error
			if errors.As(err, &failed) && failed.Code == bounds.Code {
				t.Fatalf("%s(%v): %v", b.Name, operands, err)
			}
		}
	}
}
