package authz

import (
	"context"
	"reflect"
	"slices"
)

// A shortcut decides a request without evaluating all of the policy on all of the input:
// by the projection of the input, by an index of the data, or by a decision that is cached.
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

// SameDecision compares all that a client, an upstream and a record can tell.
func SameDecision(a, b Decision) bool {
	return a.Failure == b.Failure && a.Verdict == b.Verdict && a.Rule == b.Rule && a.Reason == b.Reason &&
		a.Plain == b.Plain && sameAnswer(a, b) && reflect.DeepEqual(a.Metadata, b.Metadata) &&
		slices.Equal(a.Labels, b.Labels) && a.LabelsIgnored == b.LabelsIgnored
}

// Blame finds the rule that decides otherwise by shortcut than from the whole input, with its
// Rego path, which is empty for a filter of another kind. Two requests stand for one: narrow
// has no more than the policy reads of whole. The rule is empty if there is none.
func (p *Policy) Blame(ctx context.Context, whole, narrow *Request) (rule, path string) {
	for _, r := range p.rules {
		plain := r.filter.check(ctx, question{Conditions: Conditions{Shadow: true, Plain: true}, request: whole, input: whole.Input})
		quick := r.filter.check(ctx, question{Conditions: Conditions{Shadow: true}, request: narrow, input: narrow.Input})
		if !SameDecision(quick, plain) {
			return r.id, r.path
		}
	}
	return "", ""
}
