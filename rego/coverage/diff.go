package coverage

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/compile"
)

const (
	// maxTargets bounds the targets of a side.
	maxTargets = 256
	// maxDecisive bounds the decisive expressions of a target.
	maxDecisive = 32
)

// Source is what Diff compares of a policy.
type Source struct {
	// Modules :: file name → Rego v1 text.
	Modules map[string]string
	// Data is the document that the modules read as `data`, in the types of encoding/json.
	Data map[string]any
	// Paths are the rules that are asked, such as envoy/authz/allow. Rules that none of them
	// can lead to, such as tests, are no part of a change.
	Paths []string
}

// Diff returns the rules that only one of two policies has. A rule is the same if its
// package, head, body and the imports that it uses are; formatting, comments, and where it
// stands are no difference. The error is that of ctx, or of a module that does not parse.
func Diff(ctx context.Context, live, candidate Source) (Changes, error) {
	l, err := read(ctx, live)
	if err != nil {
		return Changes{}, fmt.Errorf("reading the live policy: %w", err)
	}
	c, err := read(ctx, candidate)
	if err != nil {
		return Changes{}, fmt.Errorf("reading the candidate: %w", err)
	}
	var out Changes
	out.Data = changedData(live.Data, candidate.Data)
	removed, added := onlyIn(l, c), onlyIn(c, l)
	counterparts := pairs(removed, added)
	for _, r := range reached(removed) {
		out.Live = append(out.Live, r.target(counterparts[r]))
	}
	for _, r := range reached(added) {
		out.Candidate = append(out.Candidate, r.target(counterparts[r]))
	}
	for _, r := range reached(c) {
		if !slices.Contains(added, r) {
			if spans, ok := r.readsAny(out.Data); ok {
				out.Candidate = append(out.Candidate, r.place(spans))
			}
		}
	}
	for _, side := range []*[]Target{&out.Live, &out.Candidate} {
		slices.SortStableFunc(*side, func(a, b Target) int {
			return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		})
		if len(*side) > maxTargets {
			*side, out.Truncated = (*side)[:maxTargets], true
		}
	}
	return out, nil
}

// read parses a policy and returns its rules, in order.
func read(ctx context.Context, s Source) ([]*rule, error) {
	modules, err := compile.Parse(ctx, s.Modules)
	if err != nil {
		return nil, err
	}
	var all []*rule
	for _, module := range modules {
		for _, r := range module.Rules {
			for ; r != nil; r = r.Else {
				all = append(all, newRule(module, r))
			}
		}
	}
	slices.SortFunc(all, func(a, b *rule) int { return a.ast.Location.Compare(b.ast.Location) })
	reach(all, s.Paths)
	return all, ctx.Err()
}

// onlyIn returns the rules of a that b does not have. Of equal ones each counts.
func onlyIn(a, b []*rule) (out []*rule) {
	others := make(map[string]int)
	for _, r := range b {
		others[r.key]++
	}
	for _, r := range a {
		if others[r.key] > 0 {
			others[r.key]--
			continue
		}
		out = append(out, r)
	}
	return out
}

// pairs says which removed rule an added one was, and the other way round: of the same
// name, with which it has most expressions in common, one at least.
func pairs(removed, added []*rule) map[*rule]*rule {
	out := make(map[*rule]*rule)
	for _, least := range []int{4, 2, 1} {
		for _, r := range added {
			if out[r] != nil {
				continue
			}
			var best *rule
			for _, l := range removed {
				if out[l] == nil && l.name == r.name && l.common(r) >= least && (best == nil || l.common(r) > best.common(r)) {
					best = l
				}
			}
			if best != nil {
				out[r], out[best] = best, r
			}
		}
	}
	return out
}

// target returns the target that a rule is, with the rule that it was on the other side,
// which may be nil.
func (r *rule) target(other *rule) Target {
	var decisive []Span
	first := true
	for _, e := range r.expressions {
		switch {
		case other != nil && other.has(e.key):
			continue
		case other == nil && first:
			first = e.assigns
			continue
		}
		decisive = append(decisive, e.span)
	}
	return r.place(decisive)
}

// place is the target without its other side.
func (r *rule) place(decisive []Span) Target {
	at := r.ast.Location
	return Target{
		File: at.File, Line: at.Row, Column: at.Col, Name: r.name,
		Decisive: decisive[:min(len(decisive), maxDecisive)], Always: len(r.expressions) == 0 || r.ast.Default,
	}
}

// isTrue reports whether a body is the one that the parser gives to a rule without any.
func isTrue(body ast.Body) bool {
	return len(body) == 1 && body[0].Equal(ast.NewExpr(ast.BooleanTerm(true)))
}
