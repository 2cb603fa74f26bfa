package rego

import (
	"errors"
	"fmt"
	"strings"

	"github.com/open-policy-agent/opa/v1/topdown"

	"understudy/rego/bounds"
)

// EvalError is the error of an evaluation that gave no result, though it had the time.
// It describes the policy alone, since it is logged and recorded: OPA quotes values in
// its messages, which may be those of a request, a token among them.
type EvalError struct {
	// Path is the rule that was evaluated.
	Path string
	// File and Row say where in the modules; empty and 0 if unknown.
	File string
	Row  int
	// Code is OPA's class of the error, such as eval_conflict_error.
	Code string
	// Message says what went wrong; it may be empty.
	Message string
}

func (e *EvalError) Error() string {
	var where, what string
	if e.File != "" {
		where = fmt.Sprintf("%s:%d: ", e.File, e.Row)
	}
	if e.Message != "" {
		what = ": " + e.Message
	}
	return "evaluating " + e.Path + ": " + where + e.Code + what
}

// evalError turns an error of OPA into one that quotes no values.
func evalError(path string, err error) error {
	out := &EvalError{Path: path, Code: topdown.InternalErr}
	var e *topdown.Error
	if !errors.As(err, &e) {
		return out
	}
	out.Code = e.Code
	if e.Location != nil {
		out.File, out.Row = e.Location.File, e.Location.Row
	}
	// The first line of these names a rule or nothing; the values follow it. That of a
	// bound names a built-in. The messages of other codes are made of operands.
	if e.Code == bounds.Code {
		out.Message = e.Message
	}
	if e.Code == topdown.ConflictErr || e.Code == topdown.WithMergeErr {
		out.Message, _, _ = strings.Cut(e.Message, "\n")
		out.Message = strings.TrimSuffix(out.Message, ":")
	}
	return out
}
