package report

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"

	"understudy/admin/aip"
	adminpb "understudy/admin/v1"
)

// Format writes requirements as commands take them: `requests>=10000,newly-denied=0`. It is
// empty for requirements that are nil or demand nothing. [Parse] reads it back.
func Format(r *adminpb.CommitRequirements) string {
	if r == nil {
		return ""
	}
	var terms []string
	for _, q := range requirements {
		if value, set := q.value(r); set {
			terms = append(terms, q.term(value))
		}
	}
	return strings.Join(terms, ",")
}

// term writes one requirement. Of nothing at most none is written with =, as people do.
func (q requirement) term(value string) string {
	if q.operator == atMost && (value == "0" || value == "0%") {
		return q.name + string(equals) + value
	}
	return q.name + string(q.operator) + value
}

// Names returns what the terms of requirements begin with, for help and completion, in the
// order of [Format].
func Names() []string {
	var out []string
	for _, q := range requirements {
		if !slices.Contains(out, q.name) {
			out = append(out, q.name)
		}
	}
	return out
}

// DefaultTerm is a term that stands for [DefaultRequirements] and 1,000 requests. Other terms next to it take the place
// of those of the same name: "default,requests>=10000".
const DefaultTerm = "default"

// Parse reads requirements as commands take them: terms between commas, each once, with
// spaces around them as one likes. An empty text requires nothing.
//
//	default               what a careful commit requires, and 1,000 requests ([DefaultTerm])
//	requests>=10000       at least so many requests were compared that one side allows
//	callers>=20           they have at least so many distinct callers
//	endpoints>=5          and at least so many distinct methods and paths
//	duration>=1h30m       the experiment was ACTIVE for so long; also 7d
//	newly-denied=0        none of them is newly denied
//	newly-denied<=0.1%    at most this share of those that the live policy allows
//	newly-allowed<=0.1%   at most this share of those that the live policy denies
//	newly-denied<=1%@95   at most this share of callers, with a confidence of 95 %; newly-allowed, too
//	response-changed<=1%  at most this share of those with the same result
//	failed<=0.1%          at most this share of those compared
//	dropped<=1%           at most this share of all requests was not compared
//	taken-back<=2         at most this many changes of the live policy are taken back; 0 unless it is said
//	unjudged=0            no item in which they differ is left that no request has shown and nobody has accepted
//	all-nodes             every live node that has the policy reports
//	different-committer   anyone who commits has never set the policy of the experiment
//	confirmed             anyone who commits has accepted nothing of it, nor set an expectation that requests fit
//	accepted<=100         at most so many requests are accepted or expected
//	scope=all-pairs       with whatever live policy, instead of present-pair
//
// Without the % each of these limits is on a count. A bound is of requests where callers are not known,
// and always with /requests behind it: newly-denied<=0.1%@95/requests. The error names the term, the rule and the
// fix.
func Parse(text string) (*adminpb.CommitRequirements, error) {
	r := &adminpb.CommitRequirements{}
	if strings.TrimSpace(text) == "" {
		return r, nil
	}
	terms := strings.Split(text, ",")
	for i := range terms {
		terms[i] = strings.TrimSpace(terms[i])
	}
	if i := slices.Index(terms, DefaultTerm); i >= 0 {
		terms = withDefaults(slices.Delete(terms, i, i+1))
	}
	var seen []string
	for _, term := range terms {
		q, value, err := findTerm(term)
		if err != nil {
			return nil, termError(term, err)
		}
		id := q.name + fmt.Sprint(q.form)
		if slices.Contains(seen, id) {
			return nil, termError(term, fmt.Errorf("%s is required twice: leave one out", q.name))
		}
		seen = append(seen, id)
		if err := q.set(r, value); err != nil {
			return nil, termError(term, err)
		}
	}
	return r, nil
}

// withDefaults returns terms with those of the default whose names they have not.
func withDefaults(terms []string) []string {
	for term := range strings.SplitSeq(defaultRequests+","+DefaultRequirements, ",") {
		isAbout := func(given string) bool { return strings.TrimSpace(nameOf(given)) == nameOf(term) }
		if !slices.ContainsFunc(terms, isAbout) {
			terms = append(terms, term)
		}
	}
	return terms
}

// termError says which term is wrong.
func termError(term string, err error) error {
	return fmt.Errorf("requirement %q: %w", aip.Shown(term), err)
}

// termPattern is a name, an operator and a value; the last two may be absent.
var termPattern = regexp.MustCompile(`^([A-Za-z0-9_-]*)\s*([<>=!:~]*)\s*(.*)$`)

// findTerm returns the requirement that a term is about, and its value.
func findTerm(term string) (requirement, string, error) {
	if term == "" {
		return requirement{}, "", errors.New("there is nothing between two commas: leave one out")
	}
	parts := termPattern.FindStringSubmatch(term)
	if parts == nil { // a line break in it
		return requirement{}, "", unknownName(term)
	}
	name, given, value := parts[1], operator(parts[2]), parts[3]
	form := formOf(value)
	found, err := named(name)
	if err != nil {
		return requirement{}, "", err
	}
	q := found[0]
	if i := slices.IndexFunc(found, func(q requirement) bool { return q.form == form }); i >= 0 {
		q = found[i]
	}
	if (form == boundForm || form == requestBoundForm) && q.form != form && q.operator == atMost {
		return q, "", fmt.Errorf("%s has no bound at 95%%, as newly-denied and newly-allowed have: write it without @", q.name)
	}
	return q, value, checkOperator(q, given, value)
}

// named returns the requirements of a name, one for each form; an error if there are none.
func named(name string) (found []requirement, err error) {
	for _, q := range requirements {
		if q.name == name {
			found = append(found, q)
		}
	}
	switch {
	case len(found) > 0:
		return found, nil
	case name != "" && strings.Trim(name, "0123456789") == "":
		return nil, errNumberName
	default:
		return nil, unknownName(name)
	}
}

// formOf returns the form that a number has.
func formOf(value string) form {
	switch {
	case strings.Contains(value, "@") && strings.HasSuffix(value, ofRequests):
		return requestBoundForm
	case strings.Contains(value, "@"):
		return boundForm
	case strings.HasSuffix(value, "%"):
		return shareForm
	default:
		return countForm
	}
}

// errNumberName is that of the second half of 10,000 or 0,1%.
var errNumberName = errors.New("a comma ends a requirement: write a number without one, such as 10000 or 0.1%")

// checkOperator checks that an operator is that of the requirement.
func checkOperator(q requirement, given operator, value string) error {
	switch {
	case q.operator == none:
		if given != none || value != "" {
			return fmt.Errorf("%s has no value: write %s alone", q.name, q.name)
		}
		return nil
	case value == "" || given == none:
		return fmt.Errorf("it has no value: write it such as %s", q.example())
	case given == q.operator:
		return nil
	case given == equals && q.operator == atMost && strings.Trim(strings.TrimSuffix(value, "%"), "0.") == "":
		return nil // at most none is none
	default:
		return wrongOperator(q, value)
	}
}

// wrongOperator says which operator a requirement has.
func wrongOperator(q requirement, value string) error {
	// What is advised has to be right itself, so a wrong value comes before a wrong operator.
	if err := q.set(&adminpb.CommitRequirements{}, value); err != nil {
		return err
	}
	switch q.operator {
	case atLeast:
		return fmt.Errorf("%s is a minimum: write %s>=%s", q.name, q.name, value)
	case atMost:
		return fmt.Errorf("%s is a maximum: write %s<=%s", q.name, q.name, value)
	default:
		return fmt.Errorf("%s is chosen: write it such as %s", q.name, q.example())
	}
}

// example is a term of the requirement.
func (q requirement) example() string {
	value := map[form]string{countForm: "10000", shareForm: "80%", durationForm: "1h", choiceForm: allPairs}[q.form]
	if q.operator == atMost {
		value = map[form]string{countForm: "0", shareForm: "0.1%", boundForm: "0.1%@95", requestBoundForm: "0.1%@95/requests"}[q.form]
	}
	return q.term(value)
}

// unknownName is the error of a name that no requirement has.
func unknownName(name string) error {
	hint := ""
	if like := nearest(strings.ToLower(name)); like != "" {
		hint = fmt.Sprintf("did you mean %s? ", like)
	}
	return fmt.Errorf("there is no such requirement; %sthere are %s, %s", hint, DefaultTerm, strings.Join(Names(), ", "))
}

// aliases are what people write for a name.
var aliases = map[string]string{
	"request": "requests", "request-count": "requests", "min-request-count": "requests", "count": "requests",
	"denied": "newly-denied", "newly_denied": "newly-denied", "allowed": "newly-allowed", "newly_allowed": "newly-allowed",
	"failures": "failed", "errors": "failed", "drops": "dropped", "nodes": "all-nodes",
	"caller": "callers", "principals": "callers", "users": "callers", "min-caller-count": "callers",
	"endpoint": "endpoints", "paths": "endpoints", "routes": "endpoints", "min-endpoint-count": "endpoints",
	"lost": dropped, "rebase": takenBack, "reverts": takenBack, "four-eyes": DifferentCommitter, "confirmation": Confirmed, "expected": acceptedName, "committer": DifferentCommitter, "require-different-committer": DifferentCommitter,
	"coverage": unjudged, "rules": unjudged, "changed-rules": unjudged, "changed": unjudged, "items": unjudged, "unseen": unjudged, "time": "duration", "min-duration": "duration", "pairs": "scope",
}

// nearest returns the name that is meant by a misspelt one; empty if none is near.
func nearest(name string) string {
	if meant, ok := aliases[name]; ok {
		return meant
	}
	if len(name) > 40 {
		return ""
	}
	best, least := "", 1+max(1, len(name)/3)
	for _, n := range Names() {
		if d := levenshtein.ComputeDistance(name, n); d < least {
			best, least = n, d
		}
	}
	return best
}
