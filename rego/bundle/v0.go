package bundle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/format"

	"understudy/rego/compile"
)

// isV0 reports whether a module has to be translated: it is declared to be Rego v0
// and does not import rego.v1, or it is v0 and no v1. What is neither stays for
// the parser to report.
func isV0(file, text string, declared ast.RegoVersion) bool {
	if declared != ast.RegoV0 {
		if _, err := parseAs(ast.RegoV1, file, text); err == nil || declared == ast.RegoV1 {
			return false
		}
	}
	module, err := parseAs(ast.RegoV0, file, text)
	return err == nil && module != nil && !slices.ContainsFunc(module.Imports, func(i *ast.Import) bool {
		return ast.RegoV1CompatibleRef.Equal(i.Path.Value)
	})
}

func parseAs(version ast.RegoVersion, file, text string) (*ast.Module, error) {
	return ast.ParseModuleWithOpts(file, text, ast.ParserOptions{RegoVersion: version})
}

// refuseV0 names some of the modules; the first five are enough to recognize the
// bundle.
func refuseV0(old []string) error {
	const shown = 5
	list := strings.Join(old[:min(len(old), shown)], ", ")
	if more := len(old) - shown; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return refuse(list, "This is Rego v0, and a policy is Rego v1. Pass --v0-compatible to have it translated.")
}

// translate replaces modules of Rego v0 by what they are in v1, with OPA's formatter
// (`opa fmt --v0-v1`). Comments stay. All modules are tried, so that all problems are
// shown at once.
func (b *Bundle) translate(old []string) error {
	var problems []compile.Problem
	for _, name := range old {
		text, err := format.SourceWithOpts(name, []byte(b.Modules[name]), format.Opts{
			RegoVersion:                   ast.RegoV1,
			ParserOptions:                 &ast.ParserOptions{RegoVersion: ast.RegoV0},
			DropRedundantDirectiveImports: true,
		})
		if err != nil {
			problems = append(problems, compile.ProblemsIn(name, err)...)
			continue
		}
		b.Modules[name] = string(text)
		b.Translated = append(b.Translated, name)
	}
	if len(problems) > 0 {
		return compile.NewError(problems)
	}
	return nil
}
