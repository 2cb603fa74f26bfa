package change

import (
	"strconv"

	"github.com/open-policy-agent/opa/v1/ast"
)

// Edit takes an item back to what the other side has: of data, or of what an instrumented module reads there.
type Edit struct {
	// Item is the place in the list; negative of what is not listed.
	Item int
	// Path is where in the data.
	Path []string
	// Element says that the last of Path is the place of an element in an array, which goes.
	Element bool
	// Member is the member of a set at Path that goes; nil if none does.
	Member ast.Value
	// Value is what comes in its place; nil if it goes.
	Value ast.Value
	// Others says that it is of something that the side has nothing of: it belongs to what the other side has as a
	// whole, and shows nothing by itself.
	Others bool
	// Guard says that a body is left out by it, or that a condition is taken to be true or not.
	Guard bool
}

// constantsRoot is the name below data of what instrumented modules read. No package has it, for who writes one
// does not know it, and no evaluation but that of an item reads it.
const constantsRoot = "understudy: what items are about"

// constant makes a constant a part of the data, and returns the reference to it.
func (h *Half) constant(value ast.Value) (ref *ast.Term, path []string) {
	key := strconv.Itoa(len(h.Constants))
	h.Constants = append(h.Constants, value)
	return ast.NewTerm(ast.DefaultRootRef.Append(ast.StringTerm(constantsRoot)).Append(ast.StringTerm(key))), []string{constantsRoot, key}
}

// guard adds a condition to a body that is true until the item is taken back: then the body is left out.
func (h *Half) guard(item int, of *body) {
	ref, path := h.constant(ast.Boolean(true))
	ref.Location = of.rule.Location
	e := ast.NewExpr(ref).SetLocation(of.rule.Location)
	e.Index = len(of.rule.Body)
	of.rule.Body = append(of.rule.Body, e)
	h.Edits = append(h.Edits, Edit{Item: item, Path: path, Guard: true})
}
