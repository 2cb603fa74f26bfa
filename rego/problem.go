package rego

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

const (
	// maxProblems bounds the problems that a CompileError tells.
	maxProblems = 10
	// maxMessage bounds the message of a problem, in bytes: OPA quotes the source.
	maxMessage = 500
)

// Problem is one reason for which a Source does not compile.
type Problem struct {
	// File is the name of the module; empty if no single one is to blame.
	File string
	// Path is the rule of Source.Paths that is to blame; empty if none is.
	Path string
	// Row and Column count from 1; 0 means unknown.
	Row, Column int
	// Code is OPA's class of the error, such as rego_parse_error, or path_error.
	Code string
	// Message says what is wrong.
	Message string
}

// CompileError is the error of a Source that does not compile. It has at least
// one problem and at most ten, in the order of files and rows; problems of no
// file come last.
type CompileError struct{ Problems []Problem }

func (e *CompileError) Error() string {
	return "the policy does not compile: " + e.Problems[0].Message
}

func newCompileError(problems []Problem) *CompileError {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		if (a.File == "") != (b.File == "") {
			return cmp.Compare(b.File, a.File)
		}
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Row, b.Row), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	})
	if len(problems) > maxProblems {
		problems = problems[:maxProblems]
	}
	for i := range problems {
		if m := problems[i].Message; len(m) > maxMessage {
			problems[i].Message = strings.ToValidUTF8(m[:maxMessage], "") + "…"
		}
	}
	return &CompileError{problems}
}

// problemsIn turns an error of OPA about one file into problems.
func problemsIn(file string, err error) []Problem {
	var many ast.Errors
	if errors.As(err, &many) {
		return problemsOf(many)
	}
	var one *ast.Error
	if errors.As(err, &one) && one.Message == "empty module" {
		return []Problem{emptyModule(file)}
	}
	return []Problem{{File: file, Code: ast.ParseErr, Message: err.Error()}}
}

func emptyModule(file string) Problem {
	return Problem{File: file, Code: ast.ParseErr, Message: "The module is empty. Write a package and its rules, or leave the module out."}
}

func problemsOf(errs ast.Errors) []Problem {
	var out []Problem
	for _, e := range errs {
		p := Problem{Code: e.Code, Message: e.Message + insteadOf(e.Message) + aboutV0(e.Message)}
		if e.Location != nil {
			p.File, p.Row, p.Column = e.Location.File, e.Location.Row, e.Location.Col
		}
		out = append(out, p)
	}
	return out
}
