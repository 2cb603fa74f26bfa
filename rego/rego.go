// Package rego is the policy decision point: it compiles Rego modules and asks
// their rules for a value. It is the only importer of OPA.
package rego

import (
	"context"
	"errors"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
)

// Source is what a Program is compiled from.
type Source struct {
	// Modules :: file name → Rego v1 text.
	Modules map[string]string
	// Data is the document that the modules read as `data`, in the types of
	// encoding/json.
	Data map[string]any
	// Paths are the rules that will be asked, as paths below data, such as
	// envoy/authz/allow. Each has to exist in the modules or in the data.
	Paths []string
}

// Problem is one reason for which a Source does not compile.
type Problem struct {
	// File is the name of the module; empty if no single one is to blame.
	File string
	// Row and Column count from 1; 0 means unknown.
	Row, Column int
	// Code is OPA's class of the error, such as rego_parse_error.
	Code string
	// Message says what is wrong.
	Message string
}

// CompileError is the error of a Source that does not compile.
type CompileError struct{ Problems []Problem }

func (e *CompileError) Error() string { return "the policy does not compile" }

// Input is an input document. It is immutable and safe for concurrent use.
type Input struct{ value ast.Value }

// NewInput makes an Input of a document in the types of encoding/json, with
// integers of any Go type.
func NewInput(document map[string]any) (Input, error) { return Input{}, errors.ErrUnsupported }

// Program is a compiled Source. It is immutable and safe for concurrent use.
type Program struct{}

// Compile compiles a Source under restricted capabilities: no network, no access
// to the environment of the process. The error is a *CompileError or that of ctx.
func Compile(ctx context.Context, source Source) (*Program, error) { return nil, errors.ErrUnsupported }

// Result is the value of a rule.
type Result struct {
	// Defined is false if the rule has no value for this input.
	Defined bool
	// Value is in the types of encoding/json; numbers are json.Number.
	Value any
}

// Eval asks the rule at path, one of Source.Paths, for its value. All built-ins
// see the clock stand at now. An evaluation stops soon after ctx is done, with
// the error of ctx.
func (p *Program) Eval(ctx context.Context, path string, input Input, now time.Time) (Result, error) {
	return Result{}, errors.ErrUnsupported
}
