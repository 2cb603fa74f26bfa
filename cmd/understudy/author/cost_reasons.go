package author

import (
	"fmt"
	"strings"

	"understudy/authz"
	"understudy/cmd/understudy/terminal"
	"understudy/rego"
)

// reasonsOf says why decisions of a policy are evaluated: what keeps all from being cached, or
// what makes requests different to it.
func reasonsOf(cost authz.Cost) []string {
	if cost.NoRules {
		return []string{"The policy has no rules: each request gets the default decision, and nothing is evaluated."}
	}
	var out []string
	if cost.Services > 0 {
		out = append(out, fmt.Sprintf("Each request is evaluated and waits for an answer: external services are asked by %d of the rules.", cost.Services))
	}
	for _, kind := range []rego.CauseKind{rego.CauseInterpreted, rego.CauseImpure, rego.CauseClockUsed, rego.CauseNotUnderstood} {
		out = append(out, sentences(cost.Causes, kind)...)
	}
	if !cost.Cacheable {
		return append(out, "So no decision is cached: each request is evaluated.")
	}
	whole := sentences(cost.Causes, rego.CauseWhole)
	if len(whole) == 0 {
		out = append(out, "No value of a request is asked for whole: what the rules find out about a request decides whether its decision is cached.")
	}
	out = append(out, whole...)
	out = append(out, sentences(cost.Causes, rego.CauseClockBound)...)
	if what, places := placesOf(cost.Causes, rego.CauseCompared); len(what) > 0 {
		for i, w := range what {
			what[i] = fmt.Sprintf("%s (%s)", w, places[w])
		}
		out = append(out, terminal.Escape("The policy only finds out something about "+strings.Join(what, ", ")+": values that it cannot tell apart share a decision."))
	}
	return out
}

// sentences says what the causes of one kind do, each value or built-in once with all of its
// places.
func sentences(causes []rego.Cause, kind rego.CauseKind) (out []string) {
	order, places := placesOf(causes, kind)
	for _, what := range order {
		out = append(out, terminal.Escape(sentence(kind, what, places[what])))
	}
	return out
}

// placesOf returns the values and built-ins of the causes of one kind, in order, and where each
// is.
func placesOf(causes []rego.Cause, kind rego.CauseKind) (order []string, places map[string]string) {
	places = map[string]string{}
	for _, c := range causes {
		if c.Kind != kind {
			continue
		}
		place := "a place that is not known"
		if c.File != "" {
			place = fmt.Sprintf("%s:%d", c.File, c.Row)
		}
		if before, known := places[c.What]; known {
			place = before + ", " + place
		} else {
			order = append(order, c.What)
		}
		places[c.What] = place
	}
	return order, places
}

// sentence says what one cause does.
func sentence(kind rego.CauseKind, what, places string) string {
	switch kind {
	case rego.CauseInterpreted:
		return fmt.Sprintf("OPA's interpreter evaluates the rule, which takes several times as long, because of %s in %s.", what, places)
	case rego.CauseImpure:
		return fmt.Sprintf("%s in %s is no function of its operands.", what, places)
	case rego.CauseClockUsed:
		return fmt.Sprintf("%s in %s is used for more than to compare it, so each moment is another.", what, places)
	case rego.CauseNotUnderstood:
		return fmt.Sprintf("What %s reads is not known before it is evaluated: the whole input is used there, or `with`.", places)
	case rego.CauseClockBound:
		if strings.HasPrefix(what, "io.jwt.") {
			return fmt.Sprintf("%s in %s is asked for each request: a token expires, or begins to be valid.", what, places)
		}
		return fmt.Sprintf("%s in %s is compared: that is asked for each request, with its own time.", what, places)
	}
	if what == "input" {
		return fmt.Sprintf("The whole request is read in %s: a decision on what was read there is not cached.", places)
	}
	return fmt.Sprintf("%s may be asked for whole in %s: then each value that was not seen before is evaluated.", what, places)
}
