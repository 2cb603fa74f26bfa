package rego

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"
)

// An encoded input document is one value:
//
//	null, false, true      the tag
//	string, number         the tag, the length as an unsigned varint, the bytes
//	array                  the tag, the number of elements, each a value
//	object                 the tag, the number of fields, for each the key as a string without its tag, and a value
//
// A number keeps its text, so that what is decoded is equal in all that a policy can see.
const (
	tagNone byte = iota // there is no document
	tagNull
	tagFalse
	tagTrue
	tagString
	tagNumber
	tagArray
	tagObject
)

// maxInputDepth bounds the nesting of an encoded document: that of encoding/json, with
// room for what fronts put around a body.
const maxInputDepth = 10_100

// errInputForm says that bytes are no encoded input document. It does not say where:
// the bytes are a request's, and whoever logs the error must not log them.
var errInputForm = errors.New("rego: these bytes are no encoded input document")

// AppendInput appends the encoded form of an input document, which [ParseInput] reads. It
// is for another process of the same binary, and is no format to store.
func AppendInput(b []byte, input Input) ([]byte, error) {
	if input.value == nil {
		return append(b, tagNone), nil
	}
	return appendValue(b, input.value)
}

func appendValue(b []byte, v ast.Value) ([]byte, error) {
	switch v := v.(type) {
	case ast.Null:
		return append(b, tagNull), nil
	case ast.Boolean:
		if v {
			return append(b, tagTrue), nil
		}
		return append(b, tagFalse), nil
	case ast.String:
		return appendText(append(b, tagString), string(v)), nil
	case ast.Number:
		return appendText(append(b, tagNumber), string(v)), nil
	case *ast.Array:
		return appendArray(b, v)
	case ast.Object:
		return appendObject(b, v)
	}
	return nil, fmt.Errorf("rego: an input document has no value of the type %T", v)
}

func appendArray(b []byte, array *ast.Array) ([]byte, error) {
	b = binary.AppendUvarint(append(b, tagArray), uint64(array.Len()))
	for i := range array.Len() {
		var err error
		if b, err = appendValue(b, array.Elem(i).Value); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// appendObject writes fields in the order of ast.Object, which is sorted by key, so
// that equal documents have equal bytes.
func appendObject(b []byte, object ast.Object) ([]byte, error) {
	b = binary.AppendUvarint(append(b, tagObject), uint64(object.Len()))
	err := object.Iter(func(key, value *ast.Term) (err error) {
		name, ok := key.Value.(ast.String)
		if !ok {
			return fmt.Errorf("rego: a field of an input document has a name of the type %T", key.Value)
		}
		b, err = appendValue(appendText(b, string(name)), value.Value)
		return err
	})
	return b, err
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// ParseInput reads what [AppendInput] made. All of b has to be the document. It copies
// b once, and all strings of the document are parts of that copy. Bytes from anywhere
// do no harm: nesting and counts are bounded by what is there, so that a wrong length
// cannot make it allocate much.
func ParseInput(b []byte) (Input, error) {
	if len(b) == 1 && b[0] == tagNone {
		return Input{}, nil
	}
	p := inputParser{rest: string(b)}
	v, err := p.value(0)
	if err != nil {
		return Input{}, err
	}
	if p.rest != "" {
		return Input{}, errInputForm
	}
	return Input{v}, nil
}

// inputParser takes values from the front of what is left. Its texts share the memory of
// the whole.
type inputParser struct{ rest string }

func (p *inputParser) value(depth int) (ast.Value, error) {
	if p.rest == "" || depth > maxInputDepth {
		return nil, errInputForm
	}
	tag := p.rest[0]
	p.rest = p.rest[1:]
	switch tag {
	case tagNull:
		return ast.NullValue, nil
	case tagFalse:
		return ast.Boolean(false), nil
	case tagTrue:
		return ast.Boolean(true), nil
	case tagString:
		text, err := p.text()
		return ast.String(text), err
	case tagNumber:
		return p.number()
	case tagArray:
		return p.array(depth)
	case tagObject:
		return p.object(depth)
	}
	return nil, errInputForm
}

// number accepts what JSON accepts: arithmetic on any other text would panic inside of
// OPA.
func (p *inputParser) number() (ast.Value, error) {
	text, err := p.text()
	if err != nil {
		return nil, err
	}
	if text == "" || text[0] != '-' && (text[0] < '0' || text[0] > '9') || !json.Valid([]byte(text)) {
		return nil, errInputForm
	}
	return ast.Number(text), nil
}

func (p *inputParser) array(depth int) (ast.Value, error) {
	n, err := p.count()
	if err != nil {
		return nil, err
	}
	terms := make([]*ast.Term, n)
	for i := range terms {
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		terms[i] = ast.NewTerm(v)
	}
	return ast.NewArray(terms...), nil
}

func (p *inputParser) object(depth int) (ast.Value, error) {
	n, err := p.count()
	if err != nil {
		return nil, err
	}
	object := ast.NewObjectWithCapacity(n)
	for range n {
		name, err := p.text()
		if err != nil {
			return nil, err
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		object.Insert(ast.StringTerm(name), ast.NewTerm(v))
	}
	return object, nil
}

// text takes a length and as many bytes.
func (p *inputParser) text() (string, error) {
	n, err := p.count()
	if err != nil {
		return "", err
	}
	text := p.rest[:n]
	p.rest = p.rest[n:]
	return text, nil
}

// count takes a number of things that are still to come, each of a byte at least.
func (p *inputParser) count() (int, error) {
	var n uint64
	for shift := 0; shift < 64 && p.rest != ""; shift += 7 {
		c := p.rest[0]
		p.rest = p.rest[1:]
		if n |= uint64(c&0x7f) << shift; c < 0x80 {
			if n > uint64(len(p.rest)) {
				return 0, errInputForm
			}
			return int(n), nil
		}
	}
	return 0, errInputForm
}
