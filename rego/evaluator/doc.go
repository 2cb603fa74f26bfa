// Package evaluator evaluates rules of compiled Rego policies.
//
// It turns the rules that a path can reach into closures, once, when a policy is compiled: what is
// bound where, which document a reference names and what is constant is known then. An
// evaluation runs the closures, with the values of variables in slots of a frame. OPA's
// interpreter finds all of that out again in each evaluation, which takes several times as long.
//
// Its part in a decision rests on two rules:
//
//   - What it does not know is not guessed. A path that can reach such a form has no [Query], but
//     the reason, with file and line, and is evaluated by OPA.
//   - OPA's errors are OPA's. An evaluation that ends in an error is [ErrUndecided], and anyone who
//     asked has to ask OPA. The opposite may not happen: an evaluation here never leaves
//     out a part that OPA evaluates, in which OPA might find an error. It may evaluate more, since
//     an error that OPA does not find only costs time. So a body is left early only where OPA
//     leaves it too.
//
// The model: a body is a chain of steps. A step calls the next one for each way in which its
// expression holds, and tells its caller whether to go on. A term becomes an expression, which
// has one value in a frame, or none. What a rule's value is was worked out once in an
// evaluation, so a machine remembers it.
package evaluator
