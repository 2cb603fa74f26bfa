// Package bounds limits what one call of a built-in function of OPA may cost.
//
// An evaluation is cancelled between two of its steps. A call of a built-in is one
// step, and most built-ins do not look at the clock: how long they take and how much
// memory they need depends on their operands alone, and those may come from a request.
// So each built-in is judged here, by name, and belongs to one of three groups:
//
//   - free: the work is about as much as reading the operands at some nanoseconds a
//     byte, and the result is not larger than the operands. OPA's function is called.
//   - bounded: a cost is computed from the operands before the call, and beyond a limit
//     there is no call. The tables in text.go, values.go and so on are those limits.
//   - replaced: the work cannot be estimated from the operands. A function of ours does the
//     same and looks at the deadline (templates, graphs), or follows the work before it is
//     done (paths of graphs, schemas).
//
// Beyond a limit the evaluation as a whole fails: the error halts it. An error of a
// built-in would make its expression undefined, so that `not f(x)` would be true
// because x is too large, and a request could choose that.
//
// The limits are such that one call takes less than 50 ms on one core of 2025, and that
// no text is longer than 4 MiB. They are far above what decisions about requests need:
//
//	text that a built-in makes                       4 MiB
//	text that is encoded, escaped or decoded         2 MiB
//	values that a built-in makes or puts in order    100,000
//	values that a built-in reads                     500,000
//	digits of a number                               20,000
//	regular expression, instructions × bytes         10,000,000
//	YAML                                             48 KiB
//	certificates, tokens                             64 KiB
//	private keys                                     16 KiB, and 3,500 bytes to sign
//	RSA keys of certificates that are verified       8,192 bits
//	GraphQL                                          16 KiB
//	output of a template                             1 MiB
//
// Some steps of an evaluation are no calls of a built-in, and have no bound here. The first
// two take a policy that does this, the third one that makes a set of what a request has:
//
//   - values that use a part more than once (x1 := [x0, x0], x2 := [x1, x1] and so on): each
//     line doubles what there is to copy, to compare and, in the compiler, to check
//   - comparing two such values with = or ==
//   - putting a set or an object in order whose keys are numbers of more than 15 digits:
//     up to 2 s for 45,000 of them, since OPA compares each two as fractions
//
// Importing the package replaces the functions of OPA's registry. Checking small
// operands takes some nanoseconds and allocates nothing.
package bounds

import (
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// Code is the topdown.Error.Code of a call that would cost too much. The message of such
// an error names the built-in and the limit, and quotes no operand.
const Code = "eval_bound_error"

// bound is the limit of one built-in. For example concat: the cost is the sum of the
// lengths of the parts and separators, the unit is bytes of the result, and the most is
// 4 MiB.
type bound struct {
	// cost returns about how much a call needs, in the unit. It is called before each
	// call: it has to be fast and must not allocate where operands are small. It stops
	// counting above the limit.
	cost func(operands []*ast.Term) int
	// most is the highest cost with which the built-in is called.
	most int
	// unit is what is counted, in words that follow a number.
	unit string
}

// bounded :: name → limit.
var bounded = make(map[string]bound)

// bind gives several built-ins one limit. It is called by the initialisers of package
// variables, which Go runs before init. It returns a value only so that it can stand in
// a variable declaration.
func bind(most int, unit string, cost func(operands []*ast.Term) int, names ...string) struct{} {
	for _, name := range names {
		bounded[name] = bound{cost, most, unit}
	}
	return struct{}{}
}

// replaced :: name → the function that stands in for OPA's.
var replaced = map[string]func(original topdown.BuiltinFunc) topdown.BuiltinFunc{
	ast.RenderTemplate.Name:        renderTemplate,
	ast.ReachableBuiltin.Name:      reachable,
	ast.ReachablePathsBuiltin.Name: reachablePaths,
	ast.WalkBuiltin.Name:           walk,
	ast.JSONMatchSchema.Name: schemaChecked(ast.JSONMatchSchema.Name, func(o []*ast.Term) (schema, document *ast.Term) {
		return o[1], o[0]
	}),
	ast.JSONSchemaVerify.Name: schemaChecked(ast.JSONSchemaVerify.Name, func(o []*ast.Term) (schema, document *ast.Term) {
		return o[0], ast.InternedNullTerm
	}),
}

func init() {
	for name, b := range bounded {
		topdown.RegisterBuiltinFunc(name, b.guard(name, topdown.GetBuiltin(name)))
	}
	for name, replacement := range replaced {
		topdown.RegisterBuiltinFunc(name, replacement(topdown.GetBuiltin(name)))
		// OPA leaves out the context of built-ins that do not need it: ours do, for it has
		// the deadline.
		ast.BuiltinMap[name].CanSkipBctx = false
	}
}

// guard calls a built-in if that costs no more than its bound. The result is not looked
// at: what cannot be estimated from the operands belongs to the third group.
func (b bound) guard(name string, original topdown.BuiltinFunc) topdown.BuiltinFunc {
	return func(bctx topdown.BuiltinContext, operands []*ast.Term, iter func(*ast.Term) error) error {
		if b.cost(operands) > b.most {
			return exceeded(bctx, name, b.most, b.unit)
		}
		return original(bctx, operands, iter)
	}
}

// exceeded is the error of a call that would cost too much. It ends the evaluation.
func exceeded(bctx topdown.BuiltinContext, name string, most int, unit string) error {
	return topdown.Halt{Err: &topdown.Error{
		Code:     Code,
		Location: bctx.Location,
		Message:  fmt.Sprintf("%s: the operands are too large: the limit is %d %s", name, most, unit),
	}}
}

// cancelled is the error of a call that was still at work when the evaluation was
// cancelled.
func cancelled(bctx topdown.BuiltinContext, name string) error {
	return topdown.Halt{Err: &topdown.Error{
		Code: topdown.CancelErr, Location: bctx.Location, Message: name + ": cancelled before it was done",
	}}
}

// isCancelled reports whether the evaluation is to end.
func isCancelled(bctx topdown.BuiltinContext) bool {
	return bctx.Cancel != nil && bctx.Cancel.Cancelled()
}
