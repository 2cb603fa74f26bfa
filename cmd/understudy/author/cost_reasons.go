package author

import (
	"fmt"
	"strings"

	"understudy/authz"
	"understudy/cmd/understudy/terminal"
	"understudy/rego"
)

// reasonsOf says why decisions of a policy are evaluated: what keeps all from being cached, or
// what makes requests different to it, and until when decisions are valid.
func reasonsOf(cost authz.Cost) []string {
	if cost.NoRules {
		return []string{"The policy has no rules: each request gets the default decision, and nothing is evaluated."}
	}
	var out []string
	if cost.Services > 0 {
		out = append(out, fmt.Sprintf("Each request is evaluated and waits for an answer: external services are asked by %d of the rules.", cost.Services))
	}
	for _, kind := range []rego.CauseKind{rego.CauseImpure, rego.CauseClockUsed, rego.CauseNotUnderstood} {
		out = append(out, sentences(cost.Causes, kind)...)
	}
	if !cost.Cacheable {
		if len(out) == 0 && cost.Whole {
			out = append(out, "The whole request is read.")
		}
		return append(out, "So no decision is cached: each request is evaluated.")
	}
	whole := sentences(cost.Causes, rego.CauseWhole)
	if len(whole) == 0 {
		out = append(out, "No value of a request is used whole: what the rules find out about a request decides whether its decision is cached.")
	}
	out = append(out, whole...)
	for _, kind := range []rego.CauseKind{rego.CauseClockBound, rego.CauseCompared} {
		out = append(out, sentences(cost.Causes, kind)...)
	}
	return out
}

// sentences says what the causes of one kind do, each value or built-in once with all of its
// places.
func sentences(causes []rego.Cause, kind rego.CauseKind) (out []string) {
	places := map[string][]string{}
	var order []string
	for _, c := range causes {
		if c.Kind != kind {
			continue
		}
		if places[c.What] == nil {
			order = append(order, c.What)
		}
		place := "a place that is not known"
		if c.File != "" {
			place = fmt.Sprintf("%s:%d", c.File, c.Row)
		}
		places[c.What] = append(places[c.What], place)
	}
	for _, what := range order {
		out = append(out, terminal.Escape(sentence(kind, what, strings.Join(places[what], ", "))))
	}
	return out
}

// sentence says what one cause does.
func sentence(kind rego.CauseKind, what, places string) string {
	switch kind {
	case rego.CauseImpure:
		return fmt.Sprintf("%s in %s is no function of its operands.", what, places)
	case rego.CauseClockUsed:
		return fmt.Sprintf("%s in %s is used for more than to compare it, so each moment is another.", what, places)
	case rego.CauseNotUnderstood:
		return fmt.Sprintf("What %s reads is not known before it is evaluated: the whole input is used there, or `with`.", places)
	case rego.CauseClockBound:
		if strings.HasPrefix(what, "io.jwt.") {
			return fmt.Sprintf("%s in %s: a decision is valid until the token expires, or begins to be valid.", what, places)
		}
		return fmt.Sprintf("%s in %s is compared: a decision is valid until that comparison changes.", what, places)
	case rego.CauseWhole:
		return fmt.Sprintf("%s is read whole in %s: each value that was not seen before is evaluated.", what, places)
	}
	return fmt.Sprintf("%s is only compared or taken apart in %s: values that the policy cannot tell apart share a decision.", what, places)
}
