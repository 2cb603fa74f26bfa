package authz

import (
	"context"
	"errors"
	"fmt"
	"strings"

	adminpb "understudy/admin/v1"
	"understudy/authz/diagnostics"
	"understudy/rego"
	"understudy/rego/regotest"
)

// Violation is one reason for which a policy does not compile.
type Violation struct {
	// Field is the path in the policy message, such as modules["authz.rego"].
	Field string
	// Description says what is wrong, where, and how to fix it.
	Description string
	// File is the module that is to blame; empty if none is.
	File string
	// Row and Column say where in the file. They count from 1; 0 means unknown.
	Row, Column int
	// Code is the compiler's class of the error, such as rego_parse_error; empty if
	// it is not the compiler's.
	Code string
}

// CompileError is the error of a policy that does not compile. It has at least
// one violation.
type CompileError struct {
	Violations []Violation
	// caught is set if the policy broke the compiler; see Panics.ReportCompiler.
	caught *diagnostics.Caught
}

func (e *CompileError) Error() string {
	texts := make([]string, len(e.Violations))
	for i, v := range e.Violations {
		texts[i] = v.Field + ": " + v.Description
	}
	return strings.Join(texts, "; ")
}

// Unwrap returns the panic of a policy that broke the compiler; nil for any other.
func (e *CompileError) Unwrap() error {
	if e.caught == nil {
		return nil
	}
	return e.caught
}

// Compile compiles a policy: what the control plane does before it stores one, and
// a sidecar before it decides by one. The error is a *CompileError or that of ctx.
// It never panics: a policy that breaks the compiler does not compile, for it would
// break every sidecar. A large policy takes seconds: see package background.
func Compile(ctx context.Context, p *adminpb.Policy) (compiled *Policy, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			compiled, err = nil, broken(cause, "The compiler fails on this policy. Write it another way.")
		}
	}()
	return compile(ctx, p)
}

// CompiledPart returns what [Compile] reads of a policy: two policies of which it is equal
// decide alike. The messages are shared, not copied.
func CompiledPart(p *adminpb.Policy) *adminpb.Policy {
	return &adminpb.Policy{
		Rules: p.GetRules(), Modules: p.GetModules(), Data: p.GetData(), ExemptedProjects: p.GetExemptedProjects(),
	}
}

// broken is the error of modules that panicked the compiler. It is called by the
// deferred function.
func broken(cause any, description string) *CompileError {
	return &CompileError{
		Violations: []Violation{{Field: "modules", Description: description}}, caught: diagnostics.Catch(cause),
	}
}

func compile(ctx context.Context, p *adminpb.Policy) (*Policy, error) {
	if violations := checkRules(p.GetRules()); len(violations) > 0 {
		return nil, &CompileError{Violations: violations}
	}
	program, err := rego.Compile(ctx, rego.Source{
		Modules:  p.GetModules(),
		Data:     rego.DataOf(p.GetData()),
		Paths:    regoPaths(p.GetRules()),
		Optional: []string{LogDropPath, LogMaskPath},
	})
	var refused *rego.CompileError
	if errors.As(err, &refused) {
		return nil, &CompileError{Violations: regoViolations(p.GetRules(), refused)}
	}
	if err != nil {
		return nil, fmt.Errorf("compiling the policy: %w", err)
	}
	policy := &Policy{deterministic: true, program: program, exempted: newExemptions(p.GetExemptedProjects())}
	for i, r := range p.GetRules() {
		f := filterKinds[kindOf(r)].new(program, r)
		policy.rules = append(policy.rules, rule{ruleID(i, r), rulePath(r), f})
		policy.deterministic = policy.deterministic && f.deterministic()
		if callsService(f) {
			policy.services++
		}
	}
	for _, place := range bodyPlaces {
		if policy.MayRead(place) {
			policy.required = append(policy.required, place)
		}
	}
	policy.readsBody = len(policy.required) > 0 ||
		policy.MayRead("attributes", "request", "http", "body") || policy.MayRead("attributes", "request", "http", "rawBody")
	return policy, nil
}

// bodyPlaces are where the input has what is read of the body. A body that a rule may read has to parse,
// as opa-envoy-plugin has it, whether this request's evaluation asks for it or not: so no answer depends
// on what is cached.
var bodyPlaces = []string{parsedBody, truncatedBody}

const parsedBody, truncatedBody = "parsed_body", "truncated_body"

// SealedPlaces are where the input has what is made of a text that has to be parsed: the body, and the query. Of
// these an evaluation that asks for any part has the whole text in its record.
var SealedPlaces = append([]string{"parsed_query"}, bodyPlaces...)

// checkRules checks the chain as such.
func checkRules(rules []*adminpb.PolicyRule) []Violation {
	var out []Violation
	if len(rules) > adminpb.MaxRules {
		out = append(out, Violation{
			Field: "rules", Description: fmt.Sprintf("There are %d rules; the limit is %d.", len(rules), adminpb.MaxRules),
		})
	}
	seen := make(map[string]bool)
	for i, r := range rules {
		field := fmt.Sprintf("rules[%d]", i)
		if id := r.GetRuleId(); id != "" {
			if seen[id] {
				out = append(out, Violation{
					Field: field + ".rule_id", Description: "An earlier rule has the same ID. Choose another.",
				})
			}
			seen[id] = true
		}
		out = append(out, checkFilter(field, r)...)
	}
	return out
}

// ruleID returns the name of a rule in denials and records.
func ruleID(i int, r *adminpb.PolicyRule) string {
	if id := r.GetRuleId(); id != "" {
		return id
	}
	return fmt.Sprintf("rules[%d]", i)
}

// regoViolations returns the problems of the modules by the policy's fields.
func regoViolations(rules []*adminpb.PolicyRule, refused *rego.CompileError) []Violation {
	var out []Violation
	for _, p := range refused.Problems {
		v := Violation{Field: "modules", Description: p.Code + ": " + p.Message, Code: p.Code}
		switch {
		case p.Path != "":
			v.Field, v.Description = pathField(rules, p.Path), p.Message
		case p.File != "":
			v.Field = fmt.Sprintf("modules[%q]", p.File)
			v.File, v.Row, v.Column = p.File, p.Row, p.Column
			v.Description = fmt.Sprintf("%s:%d:%d: %s: %s", p.File, p.Row, p.Column, p.Code, p.Message)
		}
		out = append(out, v)
	}
	return out
}

// pathField returns the field of the first rule that asks for a path.
func pathField(rules []*adminpb.PolicyRule, path string) string {
	for i, r := range rules {
		if r.GetRego() != nil && regoPath(r.GetRego()) == path {
			return fmt.Sprintf("rules[%d].rego.path", i)
		}
	}
	return "rules"
}

// RunTests runs the test_ rules of a policy's modules, on the policy's own data and
// under the capabilities of every policy. A test that fails is no error; the error
// is a *CompileError or that of ctx, which comes with the tests that have ended. It
// never panics.
func RunTests(
	ctx context.Context, p *adminpb.Policy, options regotest.Options,
) (report regotest.Report, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = broken(cause, "The compiler fails on the tests of this policy. Write them another way.")
		}
	}()
	report, err = regotest.Run(ctx, rego.Source{Modules: p.GetModules(), Data: p.GetData().AsMap()}, options)
	var refused *rego.CompileError
	switch {
	case errors.As(err, &refused):
		return report, &CompileError{Violations: regoViolations(p.GetRules(), refused)}
	case err != nil:
		return report, fmt.Errorf("testing the policy: %w", err)
	}
	return report, nil
}
