package opaque_test

import (
	"bytes"
	goast "go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/opaque"
)

// TestOtherPackagesSeeNoContent: what they can do with a value, and what of an evaluation they can see, is
// known here. A new way to a content is a new way around the record.
func TestOtherPackagesSeeNoContent(t *testing.T) {
	for typ, want := range map[reflect.Type]string{
		reflect.TypeFor[opaque.Value](): "AsConstant Equals FromTable Hash IsConstant IsNone Known Order Part Same",
		reflect.TypeFor[*opaque.Evaluation](): "Abandon Answer Array Ask At Builtins Derive End Entry Force Input Keys Known LookUp Made Matches Missing Object Ordered Record " +
			"Test Timed Use Uses",
		reflect.TypeFor[*opaque.Question]():   "Bytes Same String",
		reflect.TypeFor[*opaque.Test]():       "String",
		reflect.TypeFor[*opaque.Vocabulary](): "AddTexts Begin Input Place SetAnswerCache",
		reflect.TypeFor[opaque.Record]():      "Entries Once OnceAt Places",
		reflect.TypeFor[opaque.Entry]():       "Answer Question",
		reflect.TypeFor[opaque.Answer]():      "",
	} {
		if got := strings.Join(exported(typ), " "); got != want {
			t.Errorf("%v has %q, want %q", typ, got, want)
		}
	}
}

// exported returns the exported fields and methods of a type, sorted.
func exported(typ reflect.Type) (names []string) {
	for method := range typ.Methods() {
		names = append(names, method.Name)
	}
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if typ.Kind() == reflect.Struct {
		for field := range typ.Fields() {
			if field.IsExported() {
				names = append(names, field.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// TestWhatGivesTerms: of all that other packages can call, only Force gives the content of an opaque
// value. The others are given what they give, or know it.
func TestWhatGivesTerms(t *testing.T) {
	want := []string{
		"Document.At",      // is asked by this package, and has the whole input
		"Evaluation.Force", // writes it down
		"Get",              // is given the collection
		"Placeless",        // is given the term
		"Value.Known",      // has nothing of an opaque value
		"Value.Order",      // was given the order, and is of a computed value
	}
	if got := givingTerms(t); !slices.Equal(got, want) {
		t.Errorf("terms are given by %q, want %q", got, want)
	}
}

// givingTerms returns the exported functions and methods that return something of package ast, sorted.
func givingTerms(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*goast.FuncDecl); ok && f.Name.IsExported() && f.Type.Results != nil && strings.Contains(textOf(t, f.Type.Results), "ast.") {
				names = append(names, nameOf(t, f))
			}
		}
	}
	slices.Sort(names)
	return names
}

// nameOf returns the name of a function with that of its receiver's type.
func nameOf(t *testing.T, f *goast.FuncDecl) string {
	t.Helper()
	if f.Recv == nil {
		return f.Name.Name
	}
	return strings.TrimPrefix(textOf(t, f.Recv.List[0].Type), "*") + "." + f.Name.Name
}

// textOf returns the text of a part of a file.
func textOf(t *testing.T, node goast.Node) string {
	t.Helper()
	list, ok := node.(*goast.FieldList)
	if ok {
		node = &goast.FuncType{Params: list}
	}
	var b bytes.Buffer
	if err := printer.Fprint(&b, token.NewFileSet(), node); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestKnownNeverTellsOfARequest, in whichever way the value is derived, until it is forced.
func TestKnownNeverTellsOfARequest(t *testing.T) {
	v := opaque.NewVocabulary()
	e := begin(v, `{"a": "b"}`)
	defer e.End()
	x := at(t, v, e, "x")
	table := opaque.Constant(ast.MustParseTerm(`{"b": {"c": 1}}`))
	below := derive(t, e, opaque.GetKey, x, opaque.Constant(ast.StringTerm("a")))
	row := derive(t, e, opaque.GetKey, table, below)
	for name, value := range map[string]opaque.Value{
		"a path": x, "a part": below, "a row": row, "a part of a row": derive(t, e, opaque.GetKey, row, opaque.Constant(ast.StringTerm("c"))),
		"the clock": clockOf(t, e, ""), "divided": clockOf(t, e, "1000"),
		"not there": derive(t, e, opaque.GetKey, x, opaque.Constant(ast.StringTerm("z"))),
	} {
		for range 2 {
			if term, known := value.Known(); known || term != nil || value.IsNone() || value.IsConstant() || !value.Equals(value) || value.Equals(table) {
				t.Errorf("%s is known: %v", name, known)
			}
			if !value.AsConstant().IsNone() {
				t.Errorf("%s becomes a part of the program", name)
			}
			if _, err := e.Test(opaque.Holds, value); err != nil { // which looks at it
				t.Fatal(err)
			}
		}
	}
}
