// Package opaque has the values that a policy's evaluation derives from a request, and writes down
// what is learned about them.
//
// A [Value] of the request has a name, its derivation: a path into the input, a part or a look-up in
// a constant table, a pure call. Its content cannot be read outside of this package. There are
// two ways to learn something about it, and both leave an [Entry] in the record of the
// [Evaluation]: [Evaluation.Force] tells the content, [Evaluation.Ask] answers a [Question], which
// has few answers. Whether there is such a value at all is a question too.
//
// An evaluation is deterministic: its program, its data and the answers so far decide which
// question is next. So two requests that give the same answers to all questions of a record have
// the same evaluation and the same outcome. That is all on which a cached decision rests. An
// operation that nobody has taught this package forces its operands, which costs hits and never
// a wrong decision.
package opaque
