package rego

import (
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/format"
)

// Format returns the text of a module as `opa fmt` writes it. The error is that of a text that
// does not parse.
func Format(file, text string) (string, error) {
	out, err := format.SourceWithOpts(file, []byte(text), format.Opts{RegoVersion: ast.RegoV1})
	if err != nil {
		return "", fmt.Errorf("formatting %s: %w", file, err)
	}
	return string(out), nil
}
