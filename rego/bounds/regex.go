package bounds

import (
	"regexp/syntax"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

const (
	// maxSteps bounds a match: Go's regular expressions take at most about as many steps
	// as there are instructions × bytes.
	maxSteps = 10_000_000
	// compiling is what an instruction costs once, in steps of a match.
	compiling = 100

	instructionsTimesBytes = "instructions × bytes of a regular expression"
)

var _ = []struct{}{
	bind(maxSteps, instructionsTimesBytes, func(o []*ast.Term) int { return stepsToMatch(str(o[0]), length(o[1])) },
		"regex.match", "re_match"),
	bind(maxSteps, instructionsTimesBytes, func(o []*ast.Term) int { return stepsToMatch(str(o[0]), 0) }, "regex.is_valid"),
	bind(maxSteps, instructionsTimesBytes, func(o []*ast.Term) int {
		return finding(str(o[0]), length(o[1]), len(str(o[1]))+1, 1)
	}, "regex.split"),
	bind(maxSteps, instructionsTimesBytes, func(o []*ast.Term) int {
		return finding(str(o[0]), length(o[1]), atMost(o[2], length(o[1])), 1)
	}, "regex.find_n"),
	bind(maxSteps, instructionsTimesBytes, func(o []*ast.Term) int {
		return finding(str(o[0]), length(o[1]), atMost(o[2], length(o[1])), 1+strings.Count(str(o[0]), "("))
	}, "regex.find_all_string_submatch_n"),
	bind(maxSteps, instructionsTimesBytes, replacing, "regex.replace"),
	bind(maxSteps, instructionsTimesBytes, func(o []*ast.Term) int { return stepsToMatch(str(o[0]), length(o[1])) },
		"regex.template_match"),
}

// stepsToMatch is at most about how many steps it takes to compile a pattern and to
// match so much text. The length of the pattern gives a first, too high number without
// parsing it; most calls are within the limit by that already.
func stepsToMatch(pattern string, text int) int {
	most := 2 * len(pattern) * repetitions(pattern)
	if cost := most * (text + compiling); cost <= maxSteps {
		return cost
	}
	return instructions(pattern) * (text + compiling)
}

// finding is stepsToMatch, for results that have values: each is worth 100 steps.
func finding(pattern string, text, results, groups int) int {
	return stepsToMatch(pattern, text) + min(results, text+1)*groups*compiling
}

// replacing is finding, for a text in which each result is replaced. What is put in may
// be as long as the replacement, and as what was found for each character of it.
func replacing(operands []*ast.Term) int {
	s, pattern, value := length(operands[0]), str(operands[1]), length(operands[2])
	return max(finding(pattern, s, s, 1)/2, (s+1)*(value+1)*(maxSteps/maxText))
}

// atMost is how many results are asked for.
func atMost(n *ast.Term, otherwise int) int {
	if number, ok := n.Value.(ast.Number); ok {
		if i, ok := number.Int(); ok && i >= 0 {
			return min(i, otherwise)
		}
	}
	return otherwise
}

// repetitions is how often counted repetitions can make a part of the pattern appear:
// (a{10}){20} has 200 times `a`. Go refuses patterns in which that is more than 1,000.
// Every number in the pattern counts, also one that is no repetition.
func repetitions(pattern string) int {
	const most = 1000
	if !strings.Contains(pattern, "{") {
		return 1
	}
	factor, n := 1, 0
	for i := range len(pattern) {
		if c := pattern[i]; c >= '0' && c <= '9' {
			n = min(10*n+int(c-'0'), most)
		} else {
			factor, n = min(factor*max(n, 1), most), 0
		}
	}
	return factor
}

// instructions is the size of the program that a pattern is compiled to, as far as it can
// be known without that.
func instructions(pattern string) int {
	if len(pattern) > maxSteps/compiling {
		return len(pattern)
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0 // it is refused as soon as it is parsed
	}
	return 1 + instructionsOf(tree)
}

// instructionsOf follows how Go compiles a pattern: a counted repetition is written out
// as often as it counts.
func instructionsOf(e *syntax.Regexp) int {
	n := 1
	if e.Op == syntax.OpLiteral {
		n = len(e.Rune)
	}
	for _, sub := range e.Sub {
		n += instructionsOf(sub)
	}
	if e.Op == syntax.OpRepeat {
		n *= max(e.Max, e.Min+1)
	}
	return min(n, maxSteps)
}
