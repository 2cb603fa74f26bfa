package cmd_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// TestTheRaceDetectorIsLeftOutWhereItCanFindNothing holds .ci/one-goroutine against the code: a
// race needs two goroutines.
func TestTheRaceDetectorIsLeftOutWhereItCanFindNothing(t *testing.T) {
	content, err := os.ReadFile("../.ci/one-goroutine")
	if err != nil {
		t.Fatal(err)
	}
	packages := 0
	for line := range strings.Lines(string(content)) {
		name := strings.TrimSpace(line)
		if strings.HasPrefix(name, "#") || name == "" {
			continue
		}
		packages++
		started, err := goroutinesOf(os.DirFS(".."), name)
		if err != nil {
			t.Errorf(".ci/one-goroutine: %s: %v", name, err)
		}
		for _, where := range started {
			t.Errorf(".ci/one-goroutine names %s, but %s: take it off the list", name, where)
		}
	}
	if packages == 0 {
		t.Error(".ci/one-goroutine names no package")
	}
}

// goroutinesOf returns where a package, its tests, or a package of ours that they import
// starts goroutines. The tests of what is imported do not count.
func goroutinesOf(root fs.FS, pkg string) (started []string, err error) {
	seen := map[string]bool{pkg: true}
	for next := []string{pkg}; len(next) > 0; next = next[1:] {
		files, err := fs.Glob(root, next[0]+"/*.go")
		if err == nil && len(files) == 0 {
			err = fs.ErrNotExist
		}
		if err != nil {
			return nil, err
		}
		for _, name := range files {
			test := strings.HasSuffix(name, "_test.go")
			if test && next[0] != pkg {
				continue
			}
			where, imports, err := goroutinesIn(root, name)
			if err != nil {
				return nil, err
			}
			started = append(started, where...)
			for _, imported := range imports {
				if own, ours := strings.CutPrefix(imported, module+"/"); ours && !seen[own] {
					seen[own] = true
					next = append(next, own)
				}
			}
		}
	}
	return started, nil
}

// concurrent are packages of others that start goroutines for anyone who imports them.
var concurrent = []string{"google.golang.org/grpc", "net/http/httptest", "testing/synctest"}

// goroutinesIn returns the statements of a file that start a goroutine or say that something
// runs next to other things, and its imports. A generated file counts for its imports alone:
// what it starts is for those who dial.
func goroutinesIn(root fs.FS, name string) (started, imports []string, err error) {
	content, err := fs.ReadFile(root, name)
	if err != nil {
		return nil, nil, err
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, content, parser.ParseComments)
	if err != nil {
		return nil, nil, err
	}
	generated := ast.IsGenerated(file)
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, nil, err
		}
		imports = append(imports, imported)
		if !generated && slices.Contains(concurrent, imported) {
			started = append(started, name+" imports "+imported)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if what := starts(n); what != "" && !generated {
			started = append(started, path.Base(name)+":"+strconv.Itoa(files.Position(n.Pos()).Line)+" has "+what)
		}
		return true
	})
	return started, imports, nil
}

// starts returns how a node starts a goroutine, or nothing.
func starts(n ast.Node) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "a go statement"
	case *ast.CallExpr:
		method, is := n.Fun.(*ast.SelectorExpr)
		if is && slices.Contains([]string{"Go", "Parallel", "RunParallel", "AfterFunc"}, method.Sel.Name) {
			return "a call of " + method.Sel.Name
		}
	}
	return ""
}

// TestGoroutinesAreSeen shows that the check sees what it is for.
func TestGoroutinesAreSeen(t *testing.T) {
	for _, c := range []struct{ name, file, content, want string }{
		{"a go statement", "a/a.go", "func f() { go f() }", "a.go:3 has a go statement"},
		{"a group", "a/a.go", "func f() { w.Go(f) }", "a call of Go"},
		{"a test beside others", "a/a_test.go", "func f() { t.Parallel() }", "a call of Parallel"},
		{"a server", "a/a_test.go", `import "net/http/httptest"`, "imports net/http/httptest"},
		{"what is imported", "b/b.go", "func f() { go f() }", "b.go:3 has a go statement"},
		{"tests of what is imported", "b/b_test.go", "func f() { go f() }", ""},
		{"nothing", "a/a.go", "func f() { f() }", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := fstest.MapFS{
				"a/x.go": {Data: []byte("package a\nimport _ \"" + module + "/b\"\n")},
				"b/x.go": {Data: []byte("package b\n")},
				c.file:   {Data: []byte("package x\n\n" + c.content + "\n")},
			}
			started, err := goroutinesOf(root, "a")
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(started, "\n")
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
