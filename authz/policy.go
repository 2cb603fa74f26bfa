package authz

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	adminpb "understudy/admin/v1"
	"understudy/authz/diagnostics"
	"understudy/rego"
)

// Violation is one reason for which a policy does not compile.
type Violation struct {
	// Field is the path in the policy message, such as modules["authz.rego"].
	Field string
	// Description says what is wrong, where, and how to mend it.
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

// Policy is a compiled policy: a chain of filters. It is safe for concurrent use;
// what it decides never changes.
type Policy struct {
	rules []rule
	// reads is what the chain can read of its input.
	reads *ReadSet
	// repeatable says that the chain's decision is a function of that.
	repeatable bool
	// deterministic says that the chain always decides alike about the same request.
	deterministic bool
	// memory is nil if nothing is remembered. It is set before the policy is used.
	memory *memory
	// distrusted is set when a decision was not the one that the whole input gives: no
	// shortcut is taken any more.
	distrusted atomic.Bool
	// program has the rules for the decision log, of those that the modules define.
	program *rego.Program
	// exempted are the projects that no rule applies to.
	exempted []exemption
	// services is the number of rules that call an external service.
	services int
}

// rule is one filter of the chain under the name that denials carry.
type rule struct {
	id     string
	filter filter
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
		Data:     rego.FromStruct(p.GetData()),
		Paths:    regoPaths(p.GetRules()),
		Optional: []string{dropPath, maskPath},
	})
	var refused *rego.CompileError
	if errors.As(err, &refused) {
		return nil, &CompileError{Violations: regoViolations(p.GetRules(), refused)}
	}
	if err != nil {
		return nil, fmt.Errorf("compiling the policy: %w", err)
	}
	policy := &Policy{repeatable: true, deterministic: true, program: program, exempted: newExemptions(p.GetExemptedProjects())}
	reads := &rego.Reads{}
	for i, r := range p.GetRules() {
		f := filterKinds[kindOf(r)].new(program, r)
		policy.rules = append(policy.rules, rule{ruleID(i, r), f})
		policy.repeatable = policy.repeatable && f.repeatable()
		policy.deterministic = policy.deterministic && f.deterministic()
		if callsService(f) {
			policy.services++
		}
		reads = reads.Union(f.reads())
	}
	policy.reads = newReadSet(reads)
	return policy, nil
}

// NoOp reports whether the policy has no rules, which means the same as no policy:
// the default decision.
func (p *Policy) NoOp() bool { return p == nil || len(p.rules) == 0 }

// Decide runs the chain: the first rule that denies decides; if none does, the
// request is allowed with the results of all rules, in order. A policy without
// rules does not decide: its answer is a denial with Default set, for which the
// caller puts its default decision. A project that the policy exempts is allowed, and
// so is the end of a reservation, whatever the rules say. It never panics: a panic in
// a filter is a failure. No external service is called: what asks one fails.
func (p *Policy) Decide(ctx context.Context, r *Request) Decision {
	q := question{request: r}
	if d, ok := p.recall(q); ok {
		return d
	}
	return p.evaluate(ctx, q)
}

// recall returns the decision if it is remembered.
func (p *Policy) recall(q question) (Decision, bool) {
	r := q.request
	if p == nil || p.memory == nil || p.distrusted.Load() || p.exempts(r) {
		return Decision{}, false
	}
	projection := r.project(p.reads)
	if projection == nil || !projection.keyed {
		return Decision{}, false
	}
	d, ok := p.memory.find(projection.fingerprint, r.Time)
	q.lookups.count(ok)
	return d, ok
}

// evaluate runs the chain and remembers what it decides. It sets the input of the
// question.
func (p *Policy) evaluate(ctx context.Context, q question) Decision {
	r := q.request
	q.input = r.Input
	switch {
	case r.Operation == OperationOnEnd:
		return p.notify(ctx, q)
	case p.NoOp():
		return Decision{Verdict: Deny, Default: true, Plain: true, Reason: "No policy: the default decision."}
	case p.exempts(r):
		return Decision{Verdict: Allow, Plain: true, Value: true, exempt: true}
	}
	var projection *projection
	if q.plain = p.distrusted.Load(); !q.plain {
		projection = r.project(p.reads)
	}
	if projection == nil {
		return p.run(ctx, q)
	}
	q.input = projection.document
	d := p.run(ctx, q)
	if p.memory != nil && projection.keyed {
		d = p.memory.keep(projection.fingerprint, d, r.Time)
	}
	return d
}

// run asks each filter in order.
func (p *Policy) run(ctx context.Context, q question) (d Decision) {
	asked := ""
	defer func() {
		q.pace.leave()
		if cause := recover(); cause != nil {
			q.panics.Report(ctx, diagnostics.PanicEvaluation, cause, q.about(asked)...)
			d = failed(FailurePanic, "The evaluation panicked.")
		}
	}()
	passed := Decision{Verdict: Allow, Plain: true, until: forever}
	for _, rule := range p.rules {
		asked = rule.id
		d := rule.filter.check(ctx, q)
		q.pace.leave() // the next rule may wait for a service
		if passed.until.Before(d.until) {
			d.until = passed.until
		}
		if d.Verdict == Deny {
			d.Rule = rule.id
			return d
		}
		passed.add(d)
		passed.until = d.until
	}
	return passed
}

// add merges what a further passing rule says into d: lists are concatenated, and
// of two metadata values of one key the later rule's stays.
func (d *Decision) add(next Decision) {
	d.Plain = d.Plain && next.Plain
	d.Value = next.Value
	d.Headers = append(d.Headers, next.Headers...)
	d.ResponseHeaders = append(d.ResponseHeaders, next.ResponseHeaders...)
	d.RemoveHeaders = append(d.RemoveHeaders, next.RemoveHeaders...)
	d.SetQuery = append(d.SetQuery, next.SetQuery...)
	d.RemoveQuery = append(d.RemoveQuery, next.RemoveQuery...)
	for key, value := range next.Metadata {
		if d.Metadata == nil {
			d.Metadata = make(map[string]any)
		}
		d.Metadata[key] = value
	}
}

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

// regoViolations tells the problems of the modules by the policy's fields.
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
