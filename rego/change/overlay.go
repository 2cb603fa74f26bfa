package change

import (
	"context"
	"strconv"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
)

// Overlay is the data of a side with some of its items taken back. What is not taken back is shared with
// the store below. It is for the goroutine of one evaluation at a time.
type Overlay struct {
	storage.Store
	root *node
	// taken :: item → it is taken back.
	taken map[int]bool
	// read :: path → what it was read as, with what is taken now.
	read map[string]ast.Value
}

// node is a place of data at or below which there are edits.
type node struct {
	children map[string]*node
	// edit is that of the place; nil if there is none.
	edit *Edit
	// constant is what is there without the edit, where the store has nothing; nil if the store has it.
	constant ast.Value
	// elements are the places of elements that go, in an array, and members the texts of those of a set.
	elements map[int]*Edit
	members  map[string]*Edit
}

// NewOverlay returns the data of a store with the constants of literals, of which nothing is taken back.
func NewOverlay(below storage.Store, half *Half) *Overlay {
	o := &Overlay{Store: below, root: &node{}}
	for i, c := range half.Constants {
		o.root.at([]string{constantsRoot, strconv.Itoa(i)}).constant = c
	}
	for i := range half.Edits {
		o.root.add(&half.Edits[i])
	}
	o.Take(nil)
	return o
}

// add puts an edit in its place.
func (n *node) add(e *Edit) {
	switch last := len(e.Path) - 1; {
	case e.Member != nil:
		n = n.at(e.Path)
		if n.members == nil {
			n.members = make(map[string]*Edit)
		}
		n.members[e.Member.String()] = e
	case e.Element:
		n = n.at(e.Path[:last])
		if n.elements == nil {
			n.elements = make(map[int]*Edit)
		}
		if at, err := strconv.Atoi(e.Path[last]); err == nil {
			n.elements[at] = e
		}
	default:
		n.at(e.Path).edit = e
	}
}

func (n *node) at(path []string) *node {
	for _, name := range path {
		if n.children == nil {
			n.children = make(map[string]*node)
		}
		if n.children[name] == nil {
			n.children[name] = &node{}
		}
		n = n.children[name]
	}
	return n
}

// Take takes items back, and no others.
func (o *Overlay) Take(items []int) {
	o.taken, o.read = make(map[int]bool, len(items)), make(map[string]ast.Value)
	for _, i := range items {
		o.taken[i] = true
	}
}

// Read implements storage.Store.
func (o *Overlay) Read(ctx context.Context, txn storage.Transaction, path storage.Path) (any, error) {
	n := o.root
	for i, name := range path {
		if n = n.children[name]; n == nil {
			return o.Store.Read(ctx, txn, path)
		}
		if n.replaced(o.taken) || n.constant != nil || len(n.elements) > 0 {
			value, err := o.at(ctx, txn, path[:i+1], n)
			if err == nil {
				value, err = find(value, path[i+1:])
			}
			return value, err
		}
	}
	return o.at(ctx, txn, path, n)
}

// replaced reports whether the place itself is taken back.
func (n *node) replaced(taken map[int]bool) bool { return n.edit != nil && taken[n.edit.Item] }

// find returns what is at a path below a value.
func find(value ast.Value, path storage.Path) (ast.Value, error) {
	for _, name := range path {
		var t *ast.Term
		switch v := value.(type) {
		case ast.Object:
			t = v.Get(ast.StringTerm(name))
		case *ast.Array:
			if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < v.Len() {
				t = v.Elem(i)
			}
		}
		if t == nil {
			return nil, gone()
		}
		value = t.Value
	}
	return value, nil
}

func gone() error { return &storage.Error{Code: storage.NotFoundErr} }

// at returns what is at a place, with all that is taken back at and below it.
func (o *Overlay) at(ctx context.Context, txn storage.Transaction, path storage.Path, n *node) (ast.Value, error) {
	if n.replaced(o.taken) {
		if n.edit.Value == nil {
			return nil, gone()
		}
		return n.edit.Value, nil
	}
	key := path.String()
	if value, known := o.read[key]; known {
		return value, nil
	}
	value, err := n.below(ctx, txn, o.Store, path)
	if err == nil {
		value, err = n.patch(value, o.taken)
	}
	if err == nil {
		o.read[key] = value
	}
	return value, err
}

// below returns what is at a place without any edit.
func (n *node) below(ctx context.Context, txn storage.Transaction, store storage.Store, path storage.Path) (ast.Value, error) {
	if n.constant != nil {
		return n.constant, nil
	}
	found, err := store.Read(ctx, txn, path)
	if err != nil {
		return nil, err
	}
	if value, ok := found.(ast.Value); ok {
		return value, nil
	}
	return ast.InterfaceToValue(found)
}

// patch returns a value with what is taken back in it. Parts without any are shared.
func (n *node) patch(value ast.Value, taken map[int]bool) (ast.Value, error) {
	if !n.touched(taken) {
		return value, nil
	}
	switch v := value.(type) {
	case ast.Object:
		return n.patchObject(v, taken)
	case *ast.Array:
		return n.patchArray(v, taken)
	case ast.Set:
		kept := ast.NewSet()
		v.Foreach(func(t *ast.Term) {
			e := n.members[t.Value.String()]
			switch {
			case e == nil || !taken[e.Item]:
				kept.Add(t)
			case e.Value != nil:
				kept.Add(ast.NewTerm(e.Value))
			}
		})
		return kept, nil
	}
	return value, nil
}

func (n *node) patchArray(v *ast.Array, taken map[int]bool) (ast.Value, error) {
	var kept []*ast.Term
	for i := range v.Len() {
		if e := n.elements[i]; e != nil && taken[e.Item] {
			continue
		}
		element, err := n.children[strconv.Itoa(i)].patched(v.Elem(i), taken)
		if err != nil {
			return nil, err
		}
		if element != nil {
			kept = append(kept, element)
		}
	}
	return ast.NewArray(kept...), nil
}

// patched is a member or an element with what is taken back; nil if it goes. n may be nil.
func (n *node) patched(t *ast.Term, taken map[int]bool) (*ast.Term, error) {
	switch {
	case n == nil:
		return t, nil
	case !n.replaced(taken):
		value, err := n.patch(t.Value, taken)
		return ast.NewTerm(value), err
	case n.edit.Value == nil:
		return nil, nil
	default:
		return ast.NewTerm(n.edit.Value), nil
	}
}

// patchObject has what other members of an object are taken back to, and those that only the other side has.
func (n *node) patchObject(v ast.Object, taken map[int]bool) (ast.Value, error) {
	pairs := make([][2]*ast.Term, 0, v.Len())
	err := v.Iter(func(key, value *ast.Term) error {
		name, ok := key.Value.(ast.String)
		if ok {
			var err error
			if value, err = n.children[string(name)].patched(value, taken); err != nil || value == nil {
				return err
			}
		}
		pairs = append(pairs, [2]*ast.Term{key, value})
		return nil
	})
	for name, child := range n.children {
		if key := ast.StringTerm(name); child.replaced(taken) && child.edit.Value != nil && v.Get(key) == nil {
			pairs = append(pairs, [2]*ast.Term{key, ast.NewTerm(child.edit.Value)})
		}
	}
	return ast.NewObject(pairs...), err
}

// touched reports whether anything at or below the place is taken back.
func (n *node) touched(taken map[int]bool) bool {
	if len(taken) == 0 {
		return false
	}
	if n.replaced(taken) {
		return true
	}
	for _, e := range n.elements {
		if taken[e.Item] {
			return true
		}
	}
	for _, e := range n.members {
		if taken[e.Item] {
			return true
		}
	}
	for _, child := range n.children {
		if child.touched(taken) {
			return true
		}
	}
	return false
}
