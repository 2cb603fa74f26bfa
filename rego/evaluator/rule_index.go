package evaluator

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/opaque"
)

// ruleIndex selects those of some rules that can hold for a request, by questions that are asked once for all rules.
// It leaves out only rules that OPA's index leaves out, because a rule that OPA evaluates may end with an error.
type ruleIndex struct {
	conditions []condition
	// free are the numbers of the rules without a condition.
	free []int32
}

// condition is a test of one value that some rules need, each with a text of its own.
type condition struct {
	test *opaque.Test
	// path is the value, if arg is negative: a path of the input. Else arg is which argument it is.
	path opaque.Value
	arg  int
	at   *site
	// all are the numbers of the rules, ascending, and byText those of each text by its place.
	all    []int32
	byText map[uint32][]int32
}

const (
	// fewestRules is how many rules have to share a condition: fewer are evaluated as fast as they are looked up.
	fewestRules = 8
	// mostLookups is how often OPA's index of one name is asked, which takes long for rules that all need other values.
	mostLookups = 32
	// mostConditions is how many conditions there are for the rules of one name.
	mostConditions = 4
)

// newRuleIndex returns the index of rules of one name, in the order in which they are evaluated; nil if it would
// leave out none. Args are where arguments come from.
func (c *Compiler) newRuleIndex(def *definition, opa *opaIndex, all []*ast.Rule, args []*union) *ruleIndex {
	if len(all) < fewestRules {
		return nil
	}
	shared := make(map[string]*sharedRequirement)
	needs := make([][]requirement, len(all))
	for i, rule := range all {
		if rule.Else != nil {
			continue
		}
		needs[i] = slices.Clone(opa.requirementsOf(rule))
		for _, r := range needs[i] {
			shared[r.key()] = shared[r.key()].with(rule, r)
		}
	}
	x := &ruleIndex{}
	keys := mostShared(shared, opa)
	for _, key := range keys {
		r := shared[key].requirement
		x.conditions = append(x.conditions, newScope(c, def, r.at).condition(r, args))
	}
	for i := range all {
		x.add(c, int32(i), keys, slices.DeleteFunc(needs[i], func(r requirement) bool { return !slices.Contains(keys, r.key()) || !opa.leavesOut(all[i], r) }))
	}
	if len(x.free) == len(all) {
		return nil
	}
	return x
}

// add adds a rule to the first of the conditions that it needs.
func (x *ruleIndex) add(c *Compiler, number int32, keys []string, needs []requirement) {
	for i, key := range keys {
		for _, r := range needs {
			if r.key() == key && x.conditions[i].add(c, number, r) {
				return
			}
		}
	}
	x.free = append(x.free, number)
}

// add adds a rule. It reports false if the values cannot be compared with its texts at once.
func (c *condition) add(compiler *Compiler, number int32, r requirement) bool {
	var places []uint32
	for _, text := range r.texts {
		compiler.vocabulary.AddTexts(r.test, text)
		place, ok := compiler.vocabulary.Place(r.test, text)
		if !ok {
			return false
		}
		places = append(places, place)
	}
	c.all = append(c.all, number)
	for _, place := range places {
		if of := c.byText[place]; len(of) == 0 || of[len(of)-1] != number {
			c.byText[place] = append(of, number)
		}
	}
	return true
}

// sharedRequirement is what rules need that differ by the texts.
type sharedRequirement struct {
	requirement
	rules []*ast.Rule
	all   map[string]bool
}

// with adds what another rule needs.
func (s *sharedRequirement) with(rule *ast.Rule, r requirement) *sharedRequirement {
	if s == nil {
		s = &sharedRequirement{requirement: r, all: make(map[string]bool)}
	}
	s.rules = append(s.rules, rule)
	for _, text := range r.texts {
		s.all[text.String()] = true
	}
	return s
}

// mostShared returns the keys of the requirements that tell most rules apart.
func mostShared(shared map[string]*sharedRequirement, opa *opaIndex) (keys []string) {
	for key, s := range shared {
		if len(s.rules) >= fewestRules {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(shared[b].all), len(shared[a].all)), cmp.Compare(a, b))
	})
	keys = slices.DeleteFunc(keys, func(key string) bool {
		s := shared[key]
		return !slices.ContainsFunc(s.rules, func(rule *ast.Rule) bool { return opa.leavesOut(rule, s.requirement) })
	})
	return keys[:min(len(keys), mostConditions)]
}

// condition compiles a condition, without rules.
func (s scope) condition(r requirement, args []*union) condition {
	out := condition{test: r.test, arg: -1, byText: make(map[uint32][]int32)}
	s.at = r.at
	if i, ok := argumentOf(r.value); ok {
		out.arg, out.at = i, s.site(Asked, args[i].origin())
		return out
	}
	out.path, _ = s.c.vocabulary.Input(r.value[1:])
	out.at = s.site(Asked, inputAt(r.value[1:]))
	return out
}

// guarded compiles what is asked before the body of a rule: what it needs behind an expression that may take long.
// OPA's index leaves the rule out without that expression.
func (s scope) guarded(opa *opaIndex, rule *ast.Rule, args []*union, body step) step {
	long := slices.IndexFunc(rule.Body, s.c.takesLong)
	if long < 0 {
		return body
	}
	if slices.ContainsFunc(presences(rule, s.c.isAbsent), func(r requirement) bool { return r.number > long && opa.leavesOut(rule, r) }) {
		return func(f *frame) signal { return f.none() }
	}
	var guards []condition
	for _, r := range slices.Concat(opa.requirementsOf(rule), presences(rule, isPath)) {
		if r.number <= long || !opa.leavesOut(rule, r) {
			continue
		}
		guard := s.condition(r, args)
		if len(r.texts) == 0 || guard.add(s.c, 0, r) {
			guards = append(guards, guard)
		}
	}
	if len(guards) == 0 {
		return body
	}
	return func(f *frame) signal {
		for i := range guards {
			if !guards[i].mayHold(f) {
				return f.none()
			}
		}
		return body(f)
	}
}

// mayHold reports whether the condition of the body of a frame holds, or is not known without forcing the value.
func (c *condition) mayHold(f *frame) bool {
	if c.test == opaque.Present {
		return !f.m.missing(c.at, c.path) && f.m.err == nil
	}
	places, ok := c.matches(f.m, f.vars) // which begin with the arguments
	return f.m.err == nil && (!ok || slices.ContainsFunc(places, func(place uint32) bool { return c.byText[place] != nil }))
}

// matches returns the places of the texts with which the test of the value holds. It reports false if that is not known
// without forcing the value.
func (c *condition) matches(m *machine, args []opaque.Value) ([]uint32, bool) {
	value := c.path
	if c.arg >= 0 {
		value = args[c.arg]
	}
	return m.matches(c.at, c.test, value)
}

// opaIndex is OPA's index of the rules of a node.
type opaIndex struct {
	// index is nil if there is none.
	index ast.RuleIndex
	// kept :: reference and its value → the rules that OPA evaluates if all else is unknown.
	kept map[string]map[*ast.Rule]bool
	// needs :: rule → what it needs.
	needs map[*ast.Rule][]requirement
}

func newOPAIndex(node *ast.TreeNode) *opaIndex {
	return &opaIndex{index: node.Index, kept: make(map[string]map[*ast.Rule]bool), needs: make(map[*ast.Rule][]requirement)}
}

// requirementsOf returns what a rule needs, found out on first use. The result may not be changed.
func (o *opaIndex) requirementsOf(rule *ast.Rule) []requirement {
	needs, known := o.needs[rule]
	if !known {
		needs = requirementsOf(rule)
		o.needs[rule] = needs
	}
	return needs
}

// leavesOut reports whether OPA leaves a rule out if a requirement is not met, whatever else the request has.
func (o *opaIndex) leavesOut(rule *ast.Rule, r requirement) bool {
	if o.index == nil {
		return false
	}
	key := fmt.Sprint(r.ref, " ", r.other)
	kept, asked := o.kept[key]
	if !asked && len(o.kept) == mostLookups {
		return false
	}
	if !asked {
		kept = make(map[*ast.Rule]bool)
		o.kept[key] = kept
		found, err := o.index.Lookup(otherValue{r.ref, r.other})
		if err != nil {
			return false
		}
		for _, one := range found.Rules {
			kept[one] = true
			for _, branch := range found.Else[one] {
				kept[branch] = true
			}
		}
	}
	return !kept[rule]
}

// otherValue resolves one reference to a value, and knows no other.
type otherValue struct {
	ref   ast.Ref
	value ast.Value
}

// Resolve is that of [ast.ValueResolver].
func (o otherValue) Resolve(ref ast.Ref) (ast.Value, error) {
	if ref.Equal(o.ref) {
		return o.value, nil
	}
	return nil, ast.UnknownValueErr{}
}

// selection goes through those of some rules that can hold for a request. Conditions are asked when it comes to the
// first rule that has one.
type selection struct {
	m    *machine
	x    *ruleIndex
	args []opaque.Value
	// count is how many rules there are, and following the next one, where there is no index.
	count, following int32
	// left are the rules of each condition that are to come, and behind them those without one.
	left  [mostConditions + 1][]int32
	asked [mostConditions]bool
}

// selectRules returns the selection of n rules, by an index if there is one.
func (m *machine) selectRules(x *ruleIndex, n int, args []opaque.Value) selection {
	s := selection{m: m, x: x, args: args, count: int32(n)}
	if x != nil {
		for i := range x.conditions {
			s.left[i] = x.conditions[i].all
		}
		s.left[mostConditions] = x.free
	}
	return s
}

// next returns the number of the next rule. It reports false at the end, and if the evaluation has ended.
func (s *selection) next() (int, bool) {
	if s.x == nil {
		s.following++
		return int(s.following - 1), s.following <= s.count
	}
	for {
		first := -1
		for i, left := range s.left {
			if len(left) > 0 && (first < 0 || left[0] < s.left[first][0]) {
				first = i
			}
		}
		switch {
		case first < 0:
			return 0, false
		case first < mostConditions && !s.asked[first]:
			s.asked[first] = true
			s.left[first] = s.x.conditions[first].holding(s.m, s.args)
			if s.m.err != nil {
				return 0, false
			}
			continue
		}
		number := s.left[first][0]
		s.left[first] = s.left[first][1:]
		return int(number), true
	}
}

// holding returns the rules of which the condition holds: all, if that is not known without forcing the value.
func (c *condition) holding(m *machine, args []opaque.Value) []int32 {
	places, ok := c.matches(m, args)
	switch {
	case !ok:
		return c.all
	case len(places) == 1:
		return c.byText[places[0]]
	}
	var out []int32
	for _, place := range places {
		out = append(out, c.byText[place]...)
	}
	slices.Sort(out)
	return out
}
