package cmd_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What a reader can hold in mind at once.
const (
	maxFields     = 15
	maxCyclomatic = 12
	maxParameters = 5
	maxLines      = 450 // of a file
)

// larger are structs that each request makes: to split them costs each check, and nobody has measured how much. An entry
// that is not larger any more goes.
var larger = map[string]bool{"authz/decision.go Decision": true, "authz/request.go Request": true}

// TestShape holds the code against what a reader can hold in mind. What somebody else has decided is
// exempt: generated code, structs of flags, structs that are a document of others (each field has the
// name that it has there), and methods of interfaces of others, which say so.
func TestShape(t *testing.T) {
	left := maps.Clone(larger)
	for _, file := range codeOf(t, os.DirFS("..")) {
		file.left = left
		if n := file.files.File(file.syntax.FileStart).LineCount(); n > maxLines {
			t.Errorf("%s has %d lines, more than %d: it has more than one noun", file.name, n, maxLines)
		}
		for _, d := range file.syntax.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				file.function(t, d)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok {
						file.structure(t, s)
					}
				}
			}
		}
	}
	for name := range left {
		t.Errorf("%s is not larger than others any more: take it off the list", name)
	}
}

// sourceFile is a file of the product.
type sourceFile struct {
	name   string
	files  *token.FileSet
	syntax *ast.File
	// flags are the types of its package that are made into flags.
	flags map[string]bool
	// left are the entries of larger that were not met.
	left map[string]bool
}

// codeOf returns the files that are neither tests nor generated.
func codeOf(t *testing.T, root fs.FS) (out []sourceFile) {
	t.Helper()
	flags := make(map[string]map[string]bool)
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		content, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		files := token.NewFileSet()
		syntax, err := parser.ParseFile(files, name, content, parser.ParseComments)
		if err != nil || ast.IsGenerated(syntax) {
			return err
		}
		of := flags[path.Dir(name)]
		if of == nil {
			of = make(map[string]bool)
			flags[path.Dir(name)] = of
		}
		noteFlags(syntax, of)
		out = append(out, sourceFile{name: name, files: files, syntax: syntax, flags: of})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// noteFlags notes the types of a file that have a method which is given a command or its flags.
func noteFlags(syntax *ast.File, flags map[string]bool) {
	for _, d := range syntax.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv == nil {
			continue
		}
		for _, p := range f.Type.Params.List {
			if text := typeText(p.Type); text == "*pflag.FlagSet" || text == "*cobra.Command" {
				flags[strings.TrimPrefix(typeText(f.Recv.List[0].Type), "*")] = true
			}
		}
	}
}

func typeText(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return "*" + typeText(e.X)
	case *ast.SelectorExpr:
		return typeText(e.X) + "." + e.Sel.Name
	case *ast.Ident:
		return e.Name
	case *ast.IndexExpr:
		return typeText(e.X)
	default:
		return fmt.Sprintf("%T", e)
	}
}

// structure holds a struct against its bound.
func (f *sourceFile) structure(t *testing.T, s *ast.TypeSpec) {
	t.Helper()
	of, ok := s.Type.(*ast.StructType)
	if !ok || f.flags[s.Name.Name] || isDocument(of) {
		return
	}
	n := 0
	for _, field := range of.Fields.List {
		n += max(1, len(field.Names))
	}
	if name := f.name + " " + s.Name.Name; n > maxFields && larger[name] {
		delete(f.left, name)
	} else if n > maxFields {
		t.Errorf("%s: %s has %d fields, and %d are what a reader can hold in mind: which of them belong together?", f.at(s), s.Name.Name, n, maxFields)
	}
}

// isDocument reports whether each field has the name that it has in a document.
func isDocument(s *ast.StructType) bool {
	return !slices.ContainsFunc(s.Fields.List, func(field *ast.Field) bool {
		return field.Tag == nil || !strings.Contains(field.Tag.Value, `json:"`) && !strings.Contains(field.Tag.Value, `yaml:"`) && !strings.Contains(field.Tag.Value, `xml:"`)
	})
}

// foreign is how a method says whose interface it is of.
var foreign = regexp.MustCompile(`(?i)\bimplements \[?\*?\w+\.\w+`)

// function holds a function against its bounds.
func (f *sourceFile) function(t *testing.T, d *ast.FuncDecl) {
	t.Helper()
	if n := cyclomatic(d); n > maxCyclomatic {
		t.Errorf("%s: %s branches %d times, and %d are what a reader can follow: which steps does it have?", f.at(d), d.Name.Name, n, maxCyclomatic)
	}
	if d.Recv != nil && foreign.MatchString(d.Doc.Text()) {
		return
	}
	parameters, strings, bare := 0, 0, false
	for _, p := range d.Type.Params.List {
		parameters += max(1, len(p.Names))
		if typeText(p.Type) == "string" {
			strings += max(1, len(p.Names))
		} else {
			strings = 0
		}
		bare = bare || strings > 1
	}
	if parameters > maxParameters {
		t.Errorf("%s: %s has %d parameters, and %d are what a caller can keep in order: which of them are one thing?", f.at(d), d.Name.Name, parameters, maxParameters)
	}
	if bare && ast.IsExported(d.Name.Name) && f.syntax.Name.Name != "main" {
		t.Errorf("%s: %s has two bare strings next to each other, which a caller can confuse: give them types", f.at(d), d.Name.Name)
	}
}

// cyclomatic is the number of ways through a function: one, and one more for each branch.
func cyclomatic(d *ast.FuncDecl) int {
	n := 1
	ast.Inspect(d, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if node.List != nil {
				n++
			}
		case *ast.CommClause:
			if node.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if node.Op == token.LAND || node.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}

func (f *sourceFile) at(n ast.Node) string {
	p := f.files.Position(n.Pos())
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}
