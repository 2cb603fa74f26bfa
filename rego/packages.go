package rego

import (
	"context"

	"understudy/rego/compile"
)

// Packages returns the package of each module, as a path such as envoy/authz. A package
// that no path can name is empty. Nothing is compiled. The error is a *CompileError or
// that of ctx.
func Packages(ctx context.Context, modules map[string]string) (map[string]string, error) {
	parsed, err := compile.Parse(ctx, modules)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string, len(parsed))
	for file, module := range parsed {
		out[file], _ = pathOf(module.Package.Path)
	}
	return out, nil
}
