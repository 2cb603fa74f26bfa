package rego

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/bounds"
	"understudy/rego/compile"
	"understudy/rego/opaque"
)

// Value is a part of an input document, for callers that make one piece by piece rather
// than from a map: the lazy decoder of a request builds only what a policy reads, and a
// map in between would be most of its cost. It is immutable and safe for concurrent
// use. The zero Value is absent.
type Value struct{ term *ast.Term }

// String returns a string, which has to be UTF-8. It shares the memory of s.
func String(s string) Value { return Value{ast.StringTerm(s)} }

// Integer returns a number.
func Integer(n int64) Value { return Value{ast.NumberTerm(json.Number(strconv.FormatInt(n, 10)))} }

// Number returns a number as JSON writes it. One that is not finite, which JSON does not
// know, is the text that protojson has.
func Number(n float64) Value {
	return Value{ast.NewTerm(ast.MustInterfaceToValue(compile.Number(n)))}
}

// Null returns null.
func Null() Value { return Value{ast.NullTerm()} }

// Array returns an array of values, none of which may be absent.
func Array(values []Value) Value {
	terms := make([]*ast.Term, len(values))
	for i, v := range values {
		terms[i] = v.term
	}
	return Value{ast.ArrayTerm(terms...)}
}

// Boolean returns true or false. It does not allocate.
func Boolean(b bool) Value { return Value{ast.InternedTerm(b)} }

// Strings returns an array of strings.
func Strings(values []string) Value {
	terms := make([]*ast.Term, len(values))
	for i, v := range values {
		terms[i] = ast.StringTerm(v)
	}
	return Value{ast.ArrayTerm(terms...)}
}

// ValueOf returns the value of a document in the types of encoding/json, with
// integers of any Go type. It copies the document. Numbers of more than 30 characters may
// have 20,000 digits together: more would take seconds to compare.
func ValueOf(document any) (Value, error) {
	if longDigits(document) > bounds.MaxDigits {
		return Value{}, errLongNumber
	}
	v, err := ast.InterfaceToValue(document)
	if err != nil {
		return Value{}, fmt.Errorf("making a value: %w", err)
	}
	return Value{ast.NewTerm(v)}, nil
}

// Name is the name of an object's field, made once for many objects: the names of an
// input document are the same in every request.
type Name struct{ term *ast.Term }

// NewName returns a Name.
func NewName(name string) Name { return Name{ast.StringTerm(name)} }

// Object is an object under construction, used by one goroutine.
type Object struct{ object ast.Object }

// NewObject returns an empty object with room for n fields.
func NewObject(n int) Object { return Object{ast.NewObjectWithCapacity(n)} }

// Set sets a field. An absent value sets nothing, so that callers need not test for it.
func (o Object) Set(name Name, v Value) {
	if v.term != nil {
		o.object.Insert(name.term, v.term)
	}
}

// Value returns the object, to which nothing may be set any more.
func (o Object) Value() Value { return Value{ast.NewTerm(o.object)} }

// Input returns the value as an input document.
func (v Value) Input() Input {
	if v.term == nil {
		return Input{}
	}
	return Input{v.term.Value}
}

// Below returns what stands in the value at the keys of a path from one on; absent if nothing does.
func (v Value) Below(p *Path, from int) Value {
	if v.term == nil || from == len(p.Keys) {
		return v
	}
	found, _ := opaque.Document{Root: v.term.Value}.At(&Path{Keys: p.Keys[from:]}) // which never fails
	return Value{found}
}
