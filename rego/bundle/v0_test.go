package bundle_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	oparego "github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
)

// evalV0 asks OPA itself, which reads the modules as Rego v0.
func evalV0(t *testing.T, modules map[string]string, data, path string, input any) any {
	t.Helper()
	var document map[string]any
	if err := json.Unmarshal([]byte(data), &document); err != nil {
		t.Fatal(err)
	}
	options := []func(*oparego.Rego){
		oparego.SetRegoVersion(ast.RegoV0), oparego.Store(inmem.NewFromObject(document)), oparego.Input(input),
		oparego.Query("data." + strings.ReplaceAll(path, "/", ".")),
	}
	for name, text := range modules {
		options = append(options, oparego.Module(name, text))
	}
	results, err := oparego.New(options...).Eval(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if len(results) == 0 {
		return nil
	}
	return results[0].Expressions[0].Value
}
