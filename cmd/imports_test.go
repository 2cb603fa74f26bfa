// Package cmd_test holds the import graph of the module.
package cmd_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// graph :: package → the packages of ours that it may import. A new arrow is a
// decision: make it here and in ARCHITECTURE.md.
var graph = map[string][]string{
	"cmd/understudy": {
		"admin", "admin/boltstore", "admin/redisstore", "admin/v1", "authz", "authz/extauthz", "deploy/examples",
	},
	"admin":            {"admin/aip", "admin/v1", "authz"},
	"admin/aip":        {},
	"admin/v1":         {},
	"admin/boltstore":  {"admin", "admin/v1", "authz"},
	"admin/redisstore": {"admin", "admin/v1", "authz"},
	"admin/storetest":  {"admin", "admin/v1", "authz"},
	"authz":            {"admin/v1", "rego"},
	"authz/extauthz":   {"authz", "rego"},
	"rego":             {},
	"deploy/examples":  {},
	"envoy":            {},
	"deploy":           {},
	"cmd":              {},
}

// doors :: outside technology, by the beginning of its import paths → the only
// packages that may import it.
var doors = map[string][]string{
	"github.com/open-policy-agent/":          {"rego"},
	"github.com/redis/":                      {"admin/redisstore"},
	"go.etcd.io/bbolt":                       {"admin/boltstore"},
	"github.com/grpc-ecosystem/grpc-gateway": {"admin", "admin/v1"},
	"github.com/envoyproxy/go-control-plane": {"authz/extauthz", "cmd/understudy"},
	"go.opentelemetry.io/otel/sdk":           {"cmd/understudy"},
	"go.opentelemetry.io/otel/exporters":     {"cmd/understudy"},
	"go.opentelemetry.io/contrib":            {"cmd/understudy"},
	"github.com/spf13/":                      {"cmd/understudy"},
	"github.com/prometheus/":                 {"cmd/understudy"},
	"github.com/compose-spec/":               {},
	"github.com/anishathalye/porcupine":      {},
	"github.com/rogpeppe/go-internal":        {},
	"github.com/google/go-cmp/cmp":           {},
}

const module = "understudy/"

// TestImports parses the files themselves: the test cache would not notice a
// change that `go list` sees.
func TestImports(t *testing.T) {
	root := ".."
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name == "protogen" || name == "authzbench" || strings.HasPrefix(name, ".") && name != ".." {
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") {
			checkFile(t, root, file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func checkFile(t *testing.T, root, file string) {
	rel, err := filepath.Rel(root, file)
	if err != nil {
		t.Fatal(err)
	}
	pkg := path.Dir(filepath.ToSlash(rel))
	allowed, known := graph[pkg]
	if !known {
		t.Errorf("%s: the package %s is not in the import graph: add it, and to ARCHITECTURE.md", rel, pkg)
		return
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if own, ok := strings.CutPrefix(imported, module); ok && !slices.Contains(allowed, own) {
			t.Errorf("%s imports %s: a new arrow is a decision, to be made in this test and in ARCHITECTURE.md", rel, own)
		}
		for technology, packages := range doors {
			if strings.HasPrefix(imported, technology) && !slices.Contains(packages, pkg) {
				t.Errorf("%s imports %s, whose only door is %v", rel, imported, packages)
			}
		}
	}
}
