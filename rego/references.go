package rego

import (
	"cmp"
	"context"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/compile"
)

// Reference is a place of a module that reads the input.
type Reference struct {
	// Path are the names below `input`, up to the first that only an evaluation knows. It is
	// empty for the whole input.
	Path []string
	// File is the module, and Row the line in it, from 1.
	File string
	Row  int
}

// References returns the places of modules that name `input` or what they import of it, by
// file and line. It is for messages: what is read through a local variable or as an argument
// of a function is found as far as it is named. The error is a *CompileError or that of ctx.
func References(ctx context.Context, modules map[string]string) ([]Reference, error) {
	parsed, err := compile.Parse(ctx, modules)
	if err != nil {
		return nil, err
	}
	var out []Reference
	for file, module := range parsed {
		imported := importedInput(module)
		for _, rule := range module.Rules {
			if compile.IsTestName(string(rule.Head.Name)) {
				continue
			}
			ast.WalkRefs(rule, func(ref ast.Ref) bool {
				if path, ok := inputPath(ref, imported); ok && ref[0].Location != nil {
					out = append(out, Reference{path, file, ref[0].Location.Row})
				}
				return false
			})
		}
	}
	slices.SortFunc(out, func(a, b Reference) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Row, b.Row), slices.Compare(a.Path, b.Path))
	})
	return out, nil
}

// importedInput :: variable → the path of the input that a module imports under it.
func importedInput(module *ast.Module) map[string][]string {
	out := map[string][]string{string(ast.InputRootDocument.Value.(ast.Var)): nil}
	for _, i := range module.Imports {
		ref, ok := i.Path.Value.(ast.Ref)
		if ok && ref[0].Equal(ast.InputRootDocument) {
			out[string(i.Name())] = names(ref[1:])
		}
	}
	return out
}

// inputPath returns the path of a reference below the input.
func inputPath(ref ast.Ref, imported map[string][]string) ([]string, bool) {
	head, ok := ref[0].Value.(ast.Var)
	if !ok {
		return nil, false
	}
	base, ok := imported[string(head)]
	return slices.Concat(base, names(ref[1:])), ok
}

// names returns the names at the beginning of a reference.
func names(ref ast.Ref) (out []string) {
	for _, term := range ref {
		name, ok := term.Value.(ast.String)
		if !ok {
			break
		}
		out = append(out, string(name))
	}
	return out
}
