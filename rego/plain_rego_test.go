package rego_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	oparego "github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/rogpeppe/go-internal/txtar"

	"understudy/rego"
)

// plainData is the data of the policies of testdata/plain.txtar.
var plainData = map[string]any{"d": map[string]any{
	"x": 1, "k": true, "list": []any{"a", "b", "c"}, "n": []any{"zero", "one"},
}}

// plainNeighbour is a package that the policies can refer to.
const plainNeighbour = `package q
ok if input.o.b == 1
h := input.a
g(x) := x.b
now := time.now_ns()
before(x) if now < x
`

// TestPlainRego holds ours against plain OPA: whatever a policy of testdata/plain.txtar says, it gives the
// same with ours as with OPA, and the same after the same answers.
func TestPlainRego(t *testing.T) {
	archive, err := txtar.ParseFile(filepath.Join("testdata", "plain.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range archive.Files {
		t.Run(file.Name, func(t *testing.T) {
			t.Parallel()
			modules := map[string]string{"p.rego": "package p\n" + string(file.Data), "q.rego": plainNeighbour}
			ours, err := rego.Compile(context.Background(), rego.Source{Modules: modules, Data: plainData, Paths: []string{"p/allow"}})
			if err != nil {
				t.Fatal(err)
			}
			opa := prepareOPA(t, modules, plainData, "p/allow")["p/allow"]
			for i, in := range plainInputs() {
				for second := range 13 {
					plainCase{t, ours, opa, i, in, time.Unix(epoch+int64(second), 0)}.check()
				}
			}
		})
	}
}

// plainInputs are inputs for which the policies decide differently.
func plainInputs() []map[string]any {
	token := signedToken(map[string]any{"exp": epoch + 5, "nbf": epoch + 2}, "s")
	return []map[string]any{
		{
			"a": map[string]any{"b": 1}, "o": map[string]any{"b": 1}, "y": 1, "x": "k", "l": []any{1, 2, "x"}, "t": epoch + 5,
			"token": token, "bad": brokenToken(), "nested": nestedToken(token),
		},
		{
			"a": map[string]any{"b": 2}, "o": map[string]any{"b": 2}, "y": 2, "x": "k", "l": []any{map[string]any{"b": []any{0, 1}}},
			"t": (epoch + 5) * int64(1e9), "token": token, "bad": "a.b.c", "nested": "a.b",
		},
		{"a": "s", "y": 0, "x": "h", "l": map[string]any{"a": 1, "0": 1}, "o": map[string]any{"b": 1, "0": 1}, "0": 1},
		{"a": nil, "y": []any{}, "l": []any{}},
		{"s": "/x/1", "p": []any{"x", "1"}, "y": 1, "o": map[string]any{"b": 1}, "token": token},
		{"s": "/x/2", "p": []any{"x", "2"}, "y": 1, "o": map[string]any{"b": 1}, "token": token},
		{"s": "/x/2", "p": []any{"x", "y", "2"}, "y": 2, "o": map[string]any{"b": 1}, "token": signedToken(map[string]any{"sub": "/x"}, "s")},
		{"s": "/y/2", "p": []any{"y", "x"}, "y": 1, "o": map[string]any{"b": 1}, "token": signedToken(map[string]any{"sub": "/y"}, "s")},
		{"s": []any{"/x/1"}, "p": "xy", "y": 1, "o": "b", "token": signedToken(map[string]any{"sub": "/x"}, "t")},
		{},
	}
}

// brokenToken has a header that OPA's io.jwt.decode takes for text.
func brokenToken() string {
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"alg":"HS256","cty":1}`)) + "." + part([]byte(`{}`)) + "." + part([]byte("x"))
}

// nestedToken signs a token within a token.
func nestedToken(inner string) string {
	return sign(`{"alg":"HS256","cty":"JWT"}`, inner, "s")
}

// plainCase is a policy with an input at a moment.
type plainCase struct {
	*testing.T
	ours  *rego.Program
	opa   oparego.PreparedEvalQuery
	index int
	input map[string]any
	now   time.Time
}

// check holds ours against OPA, and reports whether there is a record.
func (c plainCase) check() (recorded bool) {
	c.Helper()
	want := plainly(c.opa, c.input, c.now)
	if got := c.decide(); got != want {
		c.Errorf("input %d at %v: plain OPA says %s, ours %s", c.index, c.now.Unix(), want, got)
	}
	if want == "error" {
		return false
	}
	recorded, err := recordHolds(c.ours, c.input, c.now)
	if err != nil {
		c.Errorf("input %d at %v: %v", c.index, c.now.Unix(), err)
	}
	return recorded
}

// prepareOPA compiles a policy with nothing of ours, to be asked at some paths.
func prepareOPA(
	t *testing.T, modules map[string]string, data map[string]any, paths ...string,
) map[string]oparego.PreparedEvalQuery {
	compiler, err := ast.CompileModulesWithOpt(modules, ast.CompileOpts{ParserOptions: ast.ParserOptions{RegoVersion: ast.RegoV1}})
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]oparego.PreparedEvalQuery)
	for _, path := range paths {
		query := "data." + strings.ReplaceAll(path, "/", ".")
		out[path], err = oparego.New(
			oparego.Query(query), oparego.Store(inmem.NewFromObject(data)), oparego.Compiler(compiler),
		).PrepareForEval(context.Background())
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// plainly returns what OPA says to an input.
func plainly(query oparego.PreparedEvalQuery, input map[string]any, now time.Time) string {
	results, err := query.Eval(context.Background(), oparego.EvalInput(input), oparego.EvalTime(now))
	switch {
	case err != nil:
		return "error"
	case len(results) == 0:
		return "undefined"
	}
	return fmt.Sprint(results[0].Expressions[0].Value)
}

// decide asks ours.
func (c plainCase) decide() string {
	in, err := rego.NewInput(c.input)
	if err != nil {
		c.Fatal(err)
	}
	return outcome(c.ours.Eval(context.Background(), "p/allow", in, c.now))
}

// outcome returns what ours says as plainly does.
func outcome(result rego.Result, err error) string {
	switch {
	case err != nil:
		return "error"
	case !result.Defined:
		return "undefined"
	}
	return fmt.Sprint(result.Value)
}
