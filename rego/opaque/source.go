package opaque

import (
	"strconv"
	"sync/atomic"

	"github.com/open-policy-agent/opa/v1/ast"
)

// Source is the request as evaluations and look-ups ask for it. It is used by one goroutine at a
// time.
type Source interface {
	// Exists reports whether there is an input. It is an object then.
	Exists() bool
	// At returns what stands at a path of the input; nil if nothing does. It is the same at each call,
	// and what stands at a longer path is a part of it. The error ends the evaluation.
	At(p *Path) (*ast.Term, error)
	// Sealed reports whether a path leads into something that has to be parsed at a
	// cost, such as a body. What counts for it in a record is Seal, and At is called for it in
	// evaluations alone.
	Sealed(p *Path) bool
	// Seal appends all of which the value at a sealed path is made to b.
	Seal(p *Path, b []byte) []byte
}

// Path is a constant path into the input. Its keys are texts and positions in arrays.
type Path struct {
	Keys []*ast.Term
	// located is what a source has found out about the path.
	located atomic.Value
}

// Name returns the key at a place; it reports false if that is a position.
func (p *Path) Name(i int) (string, bool) {
	name, ok := p.Keys[i].Value.(ast.String)
	return string(name), ok
}

// Position returns the key at a place; it reports false if that is a text.
func (p *Path) Position(i int) (int, bool) {
	n, ok := p.Keys[i].Value.(ast.Number)
	if !ok {
		return 0, false
	}
	return n.Int()
}

// isKey reports whether a term may be a key of a path.
func isKey(t *ast.Term) bool {
	switch v := t.Value.(type) {
	case ast.String:
		return true
	case ast.Number:
		i, ok := v.Int()
		return ok && i >= 0 && strconv.Itoa(i) == string(v)
	}
	return false
}

// Located returns what locate finds out about the path, made on first use. All sources of a
// process find out the same type.
func (p *Path) Located(locate func(*Path) any) any {
	if found := p.located.Load(); found != nil {
		return found
	}
	found := locate(p)
	p.located.Store(found)
	return found
}

// Document is a request of which the input document is there.
type Document struct{ Root ast.Value }

// Exists is of [Source].
func (d Document) Exists() bool { return d.Root != nil }

// At is of [Source].
func (d Document) At(p *Path) (*ast.Term, error) {
	if d.Root == nil {
		return nil, nil
	}
	at := ast.NewTerm(d.Root)
	for _, key := range p.Keys {
		if at = Get(at, key); at == nil {
			return nil, nil
		}
	}
	return at, nil
}

// Sealed is of [Source]: nothing is.
func (Document) Sealed(*Path) bool { return false }

// Seal is of [Source].
func (Document) Seal(_ *Path, b []byte) []byte { return b }

// Get looks up a key in a collection as Rego does. It returns nil if it is not there.
func Get(collection, key *ast.Term) *ast.Term {
	switch c := collection.Value.(type) {
	case ast.Object:
		return c.Get(key)
	case *ast.Array:
		return c.Get(key)
	case ast.Set:
		if c.Contains(key) {
			return key
		}
	}
	return nil
}
