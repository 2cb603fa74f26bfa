package authz

import (
	"context"
	"reflect"
	"slices"
	"strings"

	adminpb "understudy/admin/v1"
	"understudy/rego"
)

// A shortcut decides a request without evaluating all of the policy on all of the input:
// by our evaluator and not OPA, which asks for parts of it, or by a decision that is cached.
// It may never change a decision. That is verified on live traffic (package rehearsal), and
// ends for a policy where it fails.

// Distrust ends all shortcuts of the policy: a decision was not the one that the whole
// input gives.
func (p *Policy) Distrust() { p.distrusted.Store(true) }

// Distrusted reports whether the policy takes no shortcuts any more.
func (p *Policy) Distrusted() bool { return p.distrusted.Load() }

// Unverified returns why no decision of a policy is ever decided again to verify its
// shortcuts; empty if some are. It is a metric label.
func (p *Policy) Unverified() string {
	switch {
	case p.NoOp():
		return "no_rules"
	case p.services > 0:
		return "external_service"
	case !p.deterministic:
		return "not_deterministic"
	case p.Distrusted():
		return "mismatch"
	}
	return ""
}

// Interpreted returns the forms of Rego for which rules of the policy are evaluated by OPA's interpreter
// alone, each once: it takes several times as long, and our evaluator does not know them.
func (p *Policy) Interpreted() (out []rego.Cause) {
	if p.NoOp() {
		return nil
	}
	for _, r := range p.rules {
		for _, cause := range p.program.Interpreted(r.path) {
			if !slices.Contains(out, cause) {
				out = append(out, cause)
			}
		}
	}
	return out
}

// SameDecision compares all that a client, an upstream and a record show.
func SameDecision(a, b Decision) bool {
	return a.Failure == b.Failure && a.Effect == b.Effect && a.Rule == b.Rule && a.Reason == b.Reason &&
		a.Plain == b.Plain && sameAnswer(a, b) && reflect.DeepEqual(a.Metadata, b.Metadata) &&
		slices.Equal(a.Labels, b.Labels) && a.LabelsIgnored == b.LabelsIgnored
}

// Blame finds the rule that decides otherwise by shortcut than OPA does from the whole input, with its Rego
// path, which is empty for a filter of another kind. Two requests stand for one: OPA decides the first. The
// rule is empty if there is none.
func (p *Policy) Blame(ctx context.Context, first, second *Request, reading *ReadBudget) (rule, path string) {
	asks, err := p.Ask(ctx, second, reading, false)
	if err != nil {
		return "", ""
	}
	defer asks.End()
	shortcut := evaluation{Conditions: Conditions{Shadow: true, Reading: reading}, request: second, input: second.Input, asks: asks, required: p.required}
	for _, r := range p.rules {
		plain := r.filter.check(ctx, evaluation{Conditions: Conditions{Shadow: true, Plain: true}, request: first, input: first.Input})
		quick := r.filter.check(ctx, shortcut)
		if !SameDecision(quick, plain) {
			return r.id, r.path
		}
	}
	return "", ""
}

// Cost is what is known of the cost of a policy's decisions without asking it.
type Cost struct {
	// Cacheable says that decisions are cached: they follow from what evaluations ask a request.
	Cacheable bool
	// NoRules says that there are none: the default decision.
	NoRules bool
	// Services is the number of rules that call an external service.
	Services int
	// Causes are the places of the modules that say why. Those of the kind read are of sealed places.
	Causes []rego.Cause
}

// ExplainCost compiles a policy and says what its decisions cost, and why. It is off the
// request path. The error is that of [Compile].
func ExplainCost(ctx context.Context, p *adminpb.Policy) (Cost, error) {
	compiled, err := Compile(ctx, p)
	if err != nil {
		return Cost{}, err
	}
	if compiled.NoOp() {
		return Cost{NoRules: true}, nil
	}
	return Cost{Cacheable: compiled.Recordable(), Services: compiled.services, Causes: compiled.Causes()}, nil
}

// Causes returns the places of the modules that say what decisions cost, each once: where evaluations ask or force
// what of a request, or why they are OPA's.
func (p *Policy) Causes() (out []rego.Cause) {
	for _, r := range p.rules {
		if r.path == "" {
			continue
		}
		for _, cause := range p.program.Causes(r.path) {
			if cause, ok := costs(cause); ok && !slices.Contains(out, cause) {
				out = append(out, cause)
			}
		}
	}
	return out
}

// References returns the places of the modules that name what the chain's rules read of the input, by rule.
func (p *Policy) References() (out []rego.Reference) {
	for _, r := range p.rules {
		out = append(out, p.program.References(r.path)...)
	}
	return out
}

// costs returns a cause as it is for requests of Envoy, and reports whether it costs anything: what is only
// looked up does if it is sealed.
func costs(c rego.Cause) (rego.Cause, bool) {
	if c.Kind != rego.CauseRead {
		return c, true
	}
	for _, place := range SealedPlaces {
		if input := "input." + place; c.What == input || strings.HasPrefix(c.What, input+".") || strings.HasPrefix(c.What, input+"[") {
			c.What = input
			return c, true
		}
	}
	return c, false
}
