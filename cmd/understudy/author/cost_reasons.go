package author

import (
	"fmt"
	"slices"
	"strings"

	"understudy/authz"
	"understudy/cmd/understudy/terminal"
	"understudy/rego"
)

// reasonsOf says why decisions of a policy are evaluated: what keeps all from being cached, or
// what makes requests different to it.
//
// They come in the order in which they matter: what keeps every decision from being cached, then what
// makes requests different, then what is only asked about.
func reasonsOf(cost authz.Cost) []string {
	if cost.NoRules {
		return []string{"The policy has no rules: each request gets the default decision, and nothing is evaluated."}
	}
	var out []string
	if cost.Services > 0 {
		out = append(out, fmt.Sprintf("Each request is evaluated and waits for an answer: external services are asked by %d of the rules.", cost.Services))
	}
	for _, kind := range []rego.CauseKind{rego.CauseInterpreted, rego.CauseImpure} {
		out = append(out, sentences(cost.Causes, kind)...)
	}
	if !cost.Cacheable {
		return append(out, "So no decision is cached: each request is evaluated.")
	}
	return append(out, learned(cost.Causes)...)
}

// mostNamed is how many values are named in one sentence.
//
// A policy over large tables asks about hundreds; -o json has all of them.
const mostNamed = 10

// learned says what evaluations learn of a request, what makes most requests different first.
func learned(causes []rego.Cause) (out []string) {
	whole := append(sentences(causes, rego.CauseWhole), sentences(causes, rego.CauseElements)...)
	if len(whole) > 0 {
		whole = append(whole, "Where a comparison with texts of the policy or its data is enough (==, startswith, in with an array), write that: values that it cannot distinguish share a decision.")
	}
	out = slices.Concat(sentences(causes, rego.CauseClockWhole), sentences(causes, rego.CauseRead), whole)
	if len(out) == 0 {
		out = append(out, fmt.Sprintf("No value of a request is asked for whole: what the rules find out about a request decides whether its decision is cached. "+
			"These are at most %d questions for a request, of which a loop over data asks one for each element; what comes after that is asked for whole.", rego.MostAsked))
	}
	out = append(out, sentences(causes, rego.CauseClockAsked)...)
	out = append(out, sentences(causes, rego.CauseNumbers)...)
	out = append(out, sentences(causes, rego.CauseLeft)...)
	out = append(out, manyQuestions(causes)...)
	what, places := placesOf(causes, rego.CauseAsked)
	// A value that is used whole as well, or of which a part is read, is in a sentence of its own already.
	what = slices.DeleteFunc(what, func(w string) bool {
		return slices.ContainsFunc(causes, func(c rego.Cause) bool {
			return c.What == w && c.Kind != rego.CauseAsked && c.Kind != rego.CauseNumbers && c.Kind != rego.CauseLeft || c.Kind == rego.CauseRead && strings.HasPrefix(w, c.What)
		})
	})
	if len(what) == 0 {
		return out
	}
	more := ""
	if n := len(what) - mostNamed; n > 0 {
		what, more = what[:mostNamed], fmt.Sprintf(" and %d more", n)
	}
	for i, w := range what {
		what[i] = fmt.Sprintf("%s (%s)", w, places[w])
	}
	return append(out, terminal.Escape("The policy only finds out something about "+strings.Join(what, ", ")+more+": values that it cannot distinguish share a decision."))
}

// manyQuestions says that an evaluation may ask more questions than it has room for.
func manyQuestions(causes []rego.Cause) []string {
	count := 0
	for _, c := range causes {
		if c.Kind == rego.CauseAsked || c.Kind == rego.CauseClockAsked {
			count++
		}
	}
	if count <= rego.MostAsked {
		return nil
	}
	return []string{fmt.Sprintf("The rules ask questions in %d places. An evaluation asks at most %d: each further value is asked for whole. Place first what decides most requests.", count, rego.MostAsked)}
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
//
// The order is that of the compiler, which goes through the modules by name and line.
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
//
// Each says what it means for the cache, and where it helps what to write in place of it. The terms
// are those of authz/cache/README.md.
func sentence(kind rego.CauseKind, what, places string) string {
	switch kind {
	case rego.CauseInterpreted:
		return fmt.Sprintf("A request for which %s in %s is evaluated is left to OPA's interpreter: that takes several times as long, and its decision is not cached.", what, places)
	case rego.CauseImpure:
		return fmt.Sprintf("%s in %s is no function of its operands, so a request for which it is called is left to OPA's interpreter, and its decision is not cached.", what, places)
	case rego.CauseClockWhole:
		return fmt.Sprintf("%s in %s is used for more than to compare it with a part of the request or of a token: a decision that was made with it is not cached.", what, places)
	case rego.CauseClockAsked:
		if strings.HasPrefix(what, "io.jwt.") {
			return fmt.Sprintf("%s in %s is asked for each request: a token expires, or begins to be valid.", what, places)
		}
		return fmt.Sprintf("%s in %s is compared: that is asked for each request, with its own time.", what, places)
	case rego.CauseElements:
		return fmt.Sprintf("%s is gone through in %s: an array of up to 16 elements is asked for its length, an object of up to 64 entries for its keys, and both for what the rules ask of each. Anything else is asked for whole.", what, places)
	case rego.CauseNumbers:
		return fmt.Sprintf("A number in %s may be written unusually, such as 1.0 or 1e2. Then %s may leave the request to OPA's interpreter, because a function or a key may tell it apart from an equal number.", what, places)
	case rego.CauseLeft:
		return fmt.Sprintf("If %s in %s is found, next to constants in the same set or array, the request is left to OPA's interpreter, and its decision is not cached: write a rule of its own that compares with it (==).", what, places)
	case rego.CauseRead:
		return fmt.Sprintf("A part of %s is asked for in %s: then all of its text counts, and each text that was not seen before is evaluated.", what, places)
	}
	if what == "input" {
		return fmt.Sprintf("The whole request is asked for in %s: a decision on what was asked there is not cached. Name the parts that the rule needs.", places)
	}
	return fmt.Sprintf("%s may be asked for whole in %s: then each value that was not seen before is evaluated.", what, places)
}
