// Package rego is the policy decision point: it compiles Rego modules and asks
// their rules for a value. It is the only importer of OPA.
//
// A [Source] is compiled once into an immutable [Program], under restricted
// capabilities: a policy reaches nothing but its input, its data and the clock it
// is given. A Program is then asked for the value of a rule by any number of
// goroutines. What a value means is left to the caller.
package rego

// Source is what a Program is compiled from.
type Source struct {
	// Modules :: file name → Rego v1 text.
	Modules map[string]string
	// Data is the document that the modules read as `data`, in the types of
	// encoding/json. The Program keeps it: it must not be modified any more.
	Data map[string]any
	// Paths are the rules that will be asked, as paths below data, such as
	// envoy/authz/allow. Each has to exist in the modules or in the data.
	Paths []string
}

// Problem is one reason for which a Source does not compile.
type Problem struct {
	// File is the name of the module; empty if no single one is to blame.
	File string
	// Path is the rule of Source.Paths that is to blame; empty if none is.
	Path string
	// Row and Column count from 1; 0 means unknown.
	Row, Column int
	// Code is OPA's class of the error, such as rego_parse_error.
	Code string
	// Message says what is wrong.
	Message string
}

// CompileError is the error of a Source that does not compile. It has at least
// one problem and at most maxProblems, in the order of files and rows.
type CompileError struct{ Problems []Problem }

func (e *CompileError) Error() string {
	return "the policy does not compile: " + e.Problems[0].Message
}
