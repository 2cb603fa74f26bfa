package compile

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

const (
	// maxProblems bounds the problems in an Error.
	maxProblems = 10
	// MaxMessage bounds the message of a problem, in bytes: OPA quotes the source.
	MaxMessage = 500
)

// Problem is one reason for which a Source does not compile, for its author: with the
// place, and with what to do where that is known. The API shows it as it is.
type Problem struct {
	// File is the name of the module; empty if it is not about a single one.
	File string
	// Path is the rule of Source.Paths that is meant; empty if none is.
	Path string
	// Row and Column count from 1; 0 means unknown.
	Row, Column int
	// Code is OPA's class of the error, such as rego_parse_error, or path_error.
	Code string
	// Message says what is wrong.
	Message string
}

// Error is the error of a Source that does not compile. It has at least
// one problem and at most ten, in the order of files and rows; problems of no
// file come last.
type Error struct{ Problems []Problem }

func (e *Error) Error() string {
	return "the policy does not compile: " + e.Problems[0].Message
}

// NewError puts problems, at least one, in order and within bounds. It keeps the slice.
func NewError(problems []Problem) *Error {
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
		problems[i].Message = Cut(problems[i].Message, MaxMessage)
	}
	return &Error{problems}
}

// Cut is the beginning of a text, of at most so many bytes, with a mark of what is left out.
func Cut(text string, size int) string {
	if len(text) <= size {
		return text
	}
	return strings.ToValidUTF8(text[:size], "") + "…"
}

// ProblemsIn turns an error of OPA about one file into problems.
func ProblemsIn(file string, err error) []Problem {
	var many ast.Errors
	if errors.As(err, &many) {
		return ProblemsOf(many)
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

// ProblemsOf turns errors of OPA into problems, with advice for the mistakes that
// newcomers make: a forbidden built-in, and Rego v0.
func ProblemsOf(errs ast.Errors) []Problem {
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

// aboutV0 says what to do with Rego v0, if a message of OPA is one that it causes. It
// looks at the text, since OPA has no code for it; a test fails if a new version of OPA
// words it otherwise.
func aboutV0(message string) string {
	if !strings.Contains(message, "keyword is required before") && !strings.Contains(message, "keyword is required for") {
		return ""
	}
	return ". This looks like Rego v0, and a policy is Rego v1: `opa fmt --write --v0-v1 FILE` rewrites it, and `understudy import --v0-compatible` translates it"
}
