package authz

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"understudy/authz/diagnostics"
	"understudy/rego"
)

// Policy is a compiled policy: a chain of filters. It is safe for concurrent use;
// what it decides never changes.
type Policy struct {
	rules []rule
	// required are the places of what is read of the body, as far as a rule may read them.
	required []string
	// readsBody is what MayReadBody says, which is asked for each request that is examined.
	readsBody bool
	// deterministic says that the chain always decides alike about the same request.
	deterministic bool
	// distrusted is set when a decision was not the one that the whole input gives: no
	// shortcut is taken any more.
	distrusted atomic.Bool
	// program has the rules for the decision log, of those that the modules define.
	program *rego.Program
	// exempted are the projects that no rule applies to.
	exempted Exemptions
	// services is the number of rules that call an external service.
	services int
}

// rule is one filter of the chain under the name that denials carry.
type rule struct {
	id string
	// path is that of the Rego rule; empty if the filter is of another kind.
	path   string
	filter filter
}

// Pack lets go of about half of the memory of the policy, as [rego.Program.Pack] says. It comes before anybody uses the
// policy; unpacked is called if an evaluation needs what was let go of.
func (p *Policy) Pack(unpacked func()) { p.program.Pack(unpacked) }

// NoOp reports whether the policy has no rules, which means the same as no policy:
// the default decision.
func (p *Policy) NoOp() bool { return p == nil || len(p.rules) == 0 }

// Decide runs the chain: the first rule that denies decides; if none does, the request is
// allowed with the results of all rules, in order. Without rules, the default decides; a
// project that the policy exempts is allowed, and so is the end of a reservation, whatever
// the rules say. It never panics: a panic in a filter is a failure.
func (p *Policy) Decide(ctx context.Context, r *Request, c Conditions) Decision {
	q := evaluation{Conditions: c, request: r, input: r.Input}
	switch {
	case c.Scheduler != nil:
		ctx, q.slot = c.Scheduler.Slot(ctx, r, c.Timeout)
	case c.Timeout > 0:
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Timeout)
		defer cancel()
	}
	if q.Reading == nil && c.Bodies != nil {
		q.Reading = c.Bodies.Read(ctx, r)
		defer q.Reading.End()
	}
	return p.answer(ctx, q)
}

// answer decides a request whose time and reading are bounded.
func (p *Policy) answer(ctx context.Context, q evaluation) Decision {
	r := q.request
	switch {
	case r.Operation == OperationOnEnd:
		return p.notify(ctx, q)
	case p.NoOp():
		return Decision{Effect: r.defaultEffect(q.Default), Default: true, Plain: true, Reason: "No policy: the default decision."}
	case p.Exempts(r):
		return p.exempted.Decision()
	}
	if q.Plain = q.Plain || p.Distrusted(); q.Plain || r.Parts == nil {
		return p.run(ctx, q)
	}
	return p.ask(ctx, q)
}

// ask runs the chain, of which each evaluation asks the request for the parts that it reads.
func (p *Policy) ask(ctx context.Context, q evaluation) Decision {
	q.required = p.required
	asks, err := p.Ask(ctx, q.request, q.Reading, q.Learned != nil)
	if err != nil {
		q.unreadable = err
		return p.run(ctx, q)
	}
	defer asks.End()
	q.asks = asks
	d := p.run(ctx, q)
	if q.Learned != nil {
		d = q.Learned(asks.Record(), d)
	}
	return d
}

// Ask begins to ask a request that has Parts, within what reading it may cost. What is learned is written
// down if it is for a record.
func (p *Policy) Ask(ctx context.Context, r *Request, reading *ReadBudget, record bool) (*rego.Evaluation, error) {
	parts, err := r.Parts(reading)
	if err != nil {
		return nil, err
	}
	return p.program.Ask(ctx, parts, r.Time, record), nil
}

// SetAnswerCache sets how many bytes take at most the answers that look-ups cache of tokens. The default is none.
func (p *Policy) SetAnswerCache(bytes uint64) { p.program.SetAnswerCache(bytes) }

// Recordable reports whether the chain's decision follows from what evaluations ask the request.
func (p *Policy) Recordable() bool {
	return !p.NoOp() && !slices.ContainsFunc(p.rules, func(r rule) bool { return !r.filter.recordable() })
}

// run asks each filter in order.
func (p *Policy) run(ctx context.Context, q evaluation) (d Decision) {
	asked := ""
	defer func() {
		q.leave()
		if cause := recover(); cause != nil {
			q.Panics.Report(ctx, diagnostics.PanicEvaluation, cause, q.about(asked)...)
			d = Failed(FailurePanic, "The evaluation panicked.")
		}
	}()
	passed := Decision{Effect: Allow, Plain: true}
	for _, rule := range p.rules {
		asked = rule.id
		d := rule.filter.check(ctx, q)
		q.leave()
		d.rulePath = rule.path
		d.timed = d.timed || passed.timed
		if d.Effect == Deny {
			d.Rule = rule.id
			d.addEarlier(passed.Labels, passed.LabelsIgnored)
			return d
		}
		passed.add(d)
		passed.timed, passed.rulePath = d.timed, d.rulePath
	}
	return passed
}

// add merges what a further passing rule says into d: lists are concatenated, and
// of two metadata values of one key, or labels of one name, the later rule's stays.
func (d *Decision) add(next Decision) {
	next.addEarlier(d.Labels, d.LabelsIgnored)
	d.Labels, d.LabelsIgnored = next.Labels, next.LabelsIgnored
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

// MayRead reports whether the chain may read something at, above or below a place of the input. It may
// say yes too often.
func (p *Policy) MayRead(place ...string) bool {
	return !p.NoOp() && slices.ContainsFunc(p.rules, func(r rule) bool { return r.filter.mayRead(place...) })
}

// MayReadBody reports whether the chain may read the body of an HTTP request: as it was sent, or what is
// read of it.
func (p *Policy) MayReadBody() bool { return !p.NoOp() && p.readsBody }

// Services is the number of rules that ask an external service.
func (p *Policy) Services() int {
	if p == nil {
		return 0
	}
	return p.services
}

// The rules by which a policy shapes its decision log, as OPA has them. Their input is the
// event.
const (
	// LogDropPath is true for an event that is left out.
	LogDropPath = "system/log/drop"
	// LogMaskPath is a set of JSON pointers to take out, and of objects with op (remove or
	// upsert), path and value.
	LogMaskPath = "system/log/mask"
)

// HasLogRule reports whether the modules have a rule for the decision log.
func (p *Policy) HasLogRule(path string) bool { return p.program.Has(path) }

// EvalLogRule returns the value of a rule for the decision log, in the types of
// encoding/json; nil if it is undefined or not there. The error quotes nothing of the
// input.
func (p *Policy) EvalLogRule(ctx context.Context, path string, input rego.Input, now time.Time) (any, error) {
	if !p.program.Has(path) {
		return nil, nil
	}
	result, err := p.program.Eval(ctx, path, input, now)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", path, err)
	}
	return result.Value, nil
}

// notify notifies each filter of the end of a reservation. Whatever they say, it ends: the
// answer is always that it may (Blazar's on-end). What fails is logged and counted.
func (p *Policy) notify(ctx context.Context, q evaluation) Decision {
	if !p.NoOp() && !p.Exempts(q.request) {
		for _, rule := range p.rules {
			d := rule.notify(ctx, q)
			q.leave()
			// A rule that says nothing about ends is undefined for them.
			if d.Failure != "" && d.Failure != FailureUndefined && !q.Shadow && q.NotifyFailed != nil {
				q.NotifyFailed(ctx, q.request, rule.id, d)
			}
		}
	}
	d := pass
	if !p.NoOp() {
		d.rulePath = p.rules[len(p.rules)-1].path
	}
	return d
}

// notify asks the rule's filter. A panic is a failure, of this rule alone.
func (r rule) notify(ctx context.Context, q evaluation) (d Decision) {
	defer func() {
		if cause := recover(); cause != nil {
			q.Panics.Report(ctx, diagnostics.PanicNotification, cause, q.about(r.id)...)
			d = Failed(FailurePanic, "The notification panicked.")
		}
	}()
	return r.filter.check(ctx, q)
}

// Facts are what are known of a compiled policy without asking it.
type Facts struct {
	// ReadsBody says that the chain may read the body of a request.
	ReadsBody bool
	// Deterministic says that the chain always decides alike about the same request.
	Deterministic bool
	// Services is the number of rules that call an external service.
	Services int
	// NoRules says that there are none: the default decision.
	NoRules bool
}

// Facts returns the facts of the policy.
func (p *Policy) Facts() Facts {
	if p.NoOp() {
		return Facts{Deterministic: true, NoRules: true}
	}
	return Facts{ReadsBody: p.MayReadBody(), Deterministic: p.deterministic, Services: p.services}
}
