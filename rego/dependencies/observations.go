package dependencies

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// Below a path there may be observations beside the names: what a policy finds out about
// the value, where it uses the value for nothing else. An observation is a name of its own
// kind in the tree. The value still has to be whole in an input that is evaluated
// ([Reads.Whole]); but inputs that agree in all observations give the same value of the
// rule, so the key of a decision needs no more than these ([Reads.Observe]).
//
//	startswith(input.path, "/api/")           path: "\x02^/api/"
//	["api", _, id] = input.parsed_path        parsed_path: "\x03", "\x000": "\x02=api", "\x002": whole
//	io.jwt.decode(input.token)[1].sub         token: "\x01io.jwt.decode…": "\x001": "sub": whole
const (
	// indexPrefix begins the names of elements.
	indexPrefix = "\x00"
	// callPrefix begins a call with constants beside the value; below it is what is read of
	// the result. Operands follow the name of the built-in, as Rego writes them and each
	// after a zero byte; that of the value is empty.
	callPrefix = "\x01"
	// textPrefix begins a comparison with a text: one of the kinds below, and the text.
	textPrefix = "\x02"
	// lengthName: the value is an array, of so many elements.
	lengthName = "\x03"
	// clockPrefix begins a comparison with a function of the clock: factor and offset.
	clockPrefix = "\x04"
)

// The kinds of comparisons with a text.
const (
	textEqual    = textPrefix + "="
	textPrefixed = textPrefix + "^"
	textSuffixed = textPrefix + "$"
)

var textKinds = []string{textEqual, textPrefixed, textSuffixed}

// plainName reports whether a field of an object may stand in the tree by its name: it
// could not be taken for an element or an observation.
func plainName(name string) bool { return name == "" || name[0] > clockPrefix[0] }

// isObservation reports whether a name in the tree is an observation.
func isObservation(name string) bool { return !plainName(name) && name[0] > indexPrefix[0] }

// observed reports whether there are observations on the value at this path.
func (r *Reads) observed() bool {
	for name := range r.children {
		if isObservation(name) {
			return true
		}
	}
	return false
}

// below, a path and one more name.
func below(path []string, name string) []string { return append(slices.Clone(path), name) }

// callName is the name of a call; the operand of the value is nil.
func callName(builtin string, operands []*ast.Term) string {
	name := callPrefix + builtin
	for _, o := range operands {
		name += "\x00"
		if o != nil {
			name += o.String()
		}
	}
	return name
}

// builtinOf returns the built-in that is called at a name in the tree; empty if none is.
func builtinOf(name string) string {
	if !strings.HasPrefix(name, callPrefix) {
		return ""
	}
	builtin, _, _ := strings.Cut(name[len(callPrefix):], "\x00")
	return builtin
}

// observable are the built-ins whose calls are observations: they are pure, cost little for
// each request or are cached (instrument.IsToken), and say less than the value. Those that
// are true make a text or a list of the value, so that only what is observed of that helps.
var observable = map[string]bool{
	"glob.match": false, "contains": false, "regex.match": false, "strings.any_prefix_match": false, "strings.any_suffix_match": false,
	"lt": false, "lte": false, "gt": false, "gte": false, "count": false,
	"substring": true, "split": true, "trim_prefix": true, "trim_suffix": true, "lower": true, "upper": true,
	"io.jwt.decode": true, "io.jwt.decode_verify": true,
	"io.jwt.verify_hs256": false, "io.jwt.verify_hs384": false, "io.jwt.verify_hs512": false,
	"io.jwt.verify_rs256": false, "io.jwt.verify_rs384": false, "io.jwt.verify_rs512": false,
	"io.jwt.verify_es256": false, "io.jwt.verify_es384": false, "io.jwt.verify_es512": false,
}

// quick are those whose time grows with a text no faster than to write all of it.
var quick = setOf("contains", "count", "lt", "lte", "gt", "gte", "trim_prefix", "trim_suffix")

// WithoutCalls returns the set in which a value is read whole if calls are made with it.
func (r *Reads) WithoutCalls() *Reads {
	out := &Reads{whole: r.whole, exists: r.exists}
	for name, child := range r.children {
		if strings.HasPrefix(name, callPrefix) {
			return ReadsEverything
		}
		out.below(name).merge(child.WithoutCalls())
	}
	return out
}

// mostCalls and mostTexts are how many calls and comparisons of one value are observed: beyond
// that it costs less to have it whole in the key.
const mostCalls, mostTexts = 4, 1000

// settle gives up observations that do not pay, and reports whether the path is read whole then.
func (r *Reads) settle() bool {
	calls, texts := 0, 0
	for name, child := range r.children {
		switch whole, builtin := child.settle(), builtinOf(name); {
		case strings.HasPrefix(name, textPrefix):
			texts++
		case whole && observable[builtin]:
			calls = mostCalls + 1
		case builtin != "":
			calls++
		}
	}
	if calls > mostCalls || texts > mostTexts {
		r.merge(ReadsEverything)
	}
	return r.whole
}
