package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
)

// constants are those of the packages that check requests, by name. The generator reads
// their source: it cannot import what imports the code that it makes. Limits in the
// OpenAPI document so are the limits of the server, and cannot be forgotten when one
// changes.
type constants struct {
	scopes []*types.Scope
	// missing collects names that were not found, so that the generator can report all
	// of them at once (err), and callers need not check each look-up.
	missing []error
}

// readConstants reads the constants of a folder's package, of its content, its aip and its v1.
func readConstants(admin string) (*constants, error) {
	c := &constants{}
	for _, folder := range []string{admin, filepath.Join(admin, "content"), filepath.Join(admin, "aip"), filepath.Join(admin, "v1")} {
		scope, err := readScope(folder)
		if err != nil {
			return nil, err
		}
		c.scopes = append(c.scopes, scope)
	}
	return c, nil
}

// readScope checks the types of a package without what it imports: a constant that
// needs that is not there. Errors of the type checker are expected for that reason, and
// dropped; bodies of functions are skipped, since no limit is declared in one.
func readScope(folder string) (*types.Scope, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	var parsed []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, f)
	}
	check := types.Config{Error: func(error) {}, IgnoreFuncBodies: true}
	checked, _ := check.Check(folder, files, parsed, nil)
	return checked.Scope(), nil
}

// value returns a constant of the first package that has one with the name.
func (c *constants) value(name string) constant.Value {
	for _, scope := range c.scopes {
		if found, ok := scope.Lookup(name).(*types.Const); ok && found.Val().Kind() != constant.Unknown {
			return found.Val()
		}
	}
	c.missing = append(c.missing, fmt.Errorf("there is no constant %s", name))
	return constant.MakeUnknown()
}

// number returns a constant's integer, 0 if there is none; err reports that.
func (c *constants) number(name string) int64 {
	n, _ := constant.Int64Val(constant.ToInt(c.value(name)))
	return n
}

// text returns a constant's string, empty if there is none; err reports that.
func (c *constants) text(name string) string {
	if v := c.value(name); v.Kind() == constant.String {
		return constant.StringVal(v)
	}
	return ""
}

// err says which constants were asked for and not there.
func (c *constants) err() error { return errors.Join(c.missing...) }
