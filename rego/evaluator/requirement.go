package evaluator

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/opaque"
)

// requirement is what a rule needs: a test of a value of the request, or of an argument, with one of some texts; Equal
// also with numbers.
type requirement struct {
	// value is what is tested. It is ref, or an element of it.
	value ast.Ref
	// test is [opaque.Present] if there are no texts.
	test  *opaque.Test
	texts []*ast.Term
	// ref is the reference by which OPA's index knows the value, and other what it may be if the test fails; nil for
	// no value.
	ref   ast.Ref
	other ast.Value
	// at is the expression, and number which one of the body it is.
	at     *ast.Location
	number int
}

// key is equal for requirements that differ by their texts alone.
func (r requirement) key() string { return r.value.String() + " " + r.test.String() }

// otherText is a text that hardly any policy compares with. OPA does not leave out the rules of one that does.
const otherText = ast.String("\x00")

// requirementsOf returns what a rule needs, as far as expressions say it that are the only ones about their value.
func requirementsOf(rule *ast.Rule) (out []requirement) {
	values := newRuleValues(rule)
	for i, e := range rule.Body {
		for _, r := range values.requirements(e) {
			if values.mentions(r.ref) == 1 {
				r.at, r.number = e.Location, i
				out = append(out, r)
			}
		}
	}
	return out
}

// presences returns the references of some kind to values that a rule needs to be there.
func presences(rule *ast.Rule, kind func(ast.Ref) bool) (out []requirement) {
	for i, e := range rule.Body {
		for _, t := range sides(e) {
			if ref, ok := t.Value.(ast.Ref); ok && kind(ref) {
				out = append(out, requirement{value: ref, test: opaque.Present, ref: ref, at: e.Location, number: i})
			}
		}
	}
	return out
}

// isAbsent reports whether a reference is to the data of the policy, and nothing is there.
func (c *Compiler) isAbsent(ref ast.Ref) bool {
	if !ref[0].Equal(ast.DefaultRootDocument) || !ref.IsGround() || ref.IsNested() {
		return false
	}
	rules, at := c.compiler.RuleTree.Child(ref[0].Value), ast.NewTerm(c.data)
	for _, key := range ref[1:] {
		if rules != nil {
			if len(rules.Values) > 0 {
				return false
			}
			rules = rules.Child(key.Value)
		}
		if at != nil {
			at, _ = lookUp(at, key)
		}
	}
	return rules == nil && at == nil
}

// sides returns the term that an expression is, or the two of an equation.
func sides(e *ast.Expr) []*ast.Term {
	if e.Negated || len(e.With) > 0 {
		return nil
	}
	if t, ok := e.Terms.(*ast.Term); ok {
		return []*ast.Term{t}
	}
	if e.IsEquality() {
		return e.Operands()
	}
	return nil
}

// ruleValues are the values of a request that the body of a rule names.
type ruleValues struct {
	// names :: variable → the reference of which it has the value.
	names map[ast.Var]ast.Ref
	// mentioned are the references in each expression that does not just give one a name.
	mentioned []ast.Ref
	// uses :: variable → how often the body has it.
	uses map[ast.Var]int
}

func newRuleValues(rule *ast.Rule) *ruleValues {
	v := &ruleValues{names: make(map[ast.Var]ast.Ref), uses: make(map[ast.Var]int)}
	ast.WalkVars(rule.Body, func(name ast.Var) bool {
		v.uses[name]++
		return false
	})
	for i, arg := range rule.Head.Args {
		if name, ok := arg.Value.(ast.Var); ok {
			v.names[name] = ast.Ref{ast.FunctionArgRootDocument, ast.InternedTerm(i)}
		}
	}
	var others []*ast.Expr
	for _, e := range rule.Body {
		if !v.name(e) {
			others = append(others, e)
		}
	}
	for _, e := range others { // when all names are known: a variable may have a value before it gets a name
		v.mention(e)
	}
	return v
}

// name notes the variable to which an expression gives the value of a reference. It reports false for any other
// expression.
func (v *ruleValues) name(e *ast.Expr) bool {
	if !e.IsEquality() || e.Negated || len(e.With) > 0 {
		return false
	}
	for _, pair := range [][2]*ast.Term{{e.Operand(0), e.Operand(1)}, {e.Operand(1), e.Operand(0)}} {
		name, isVar := pair[0].Value.(ast.Var)
		ref, isRef := pair[1].Value.(ast.Ref)
		if _, known := v.names[name]; isVar && isRef && !known && isPath(v.withoutWildcard(ref)) {
			v.names[name] = ref
			return true
		}
	}
	return false
}

// mention notes the references in an expression.
func (v *ruleValues) mention(e *ast.Expr) {
	ast.WalkTerms(e, func(t *ast.Term) bool {
		if ref, ok := v.resolve(t); ok {
			v.mentioned = append(v.mentioned, ref)
		}
		return false
	})
}

// resolve returns the reference of a term that has the value of one.
func (v *ruleValues) resolve(t *ast.Term) (ast.Ref, bool) {
	switch value := t.Value.(type) {
	case ast.Var:
		ref, ok := v.names[value]
		return ref, ok
	case ast.Ref:
		if name, ok := value[0].Value.(ast.Var); ok {
			if ref, ok := v.names[name]; ok {
				return ref.Concat(value[1:]), true
			}
		}
		return value, value[0].Equal(ast.InputRootDocument)
	}
	return nil, false
}

// mentions counts the references to a value, to a part of it, or to a whole of which it is a part.
func (v *ruleValues) mentions(ref ast.Ref) (n int) {
	for _, other := range v.mentioned {
		if ref.HasPrefix(other.GroundPrefix()) || other.HasPrefix(ref) {
			n++
		}
	}
	return n
}

// valueOf returns the reference of a term that is a path of the input or an argument.
func (v *ruleValues) valueOf(t *ast.Term) (ast.Ref, bool) {
	ref, ok := v.resolve(t)
	_, isArgument := argumentOf(ref)
	return ref, ok && (isArgument || isPath(ref))
}

// affixTests :: built-in of a value and texts → its test, and which texts its second operand has.
var affixTests = map[string]struct {
	test  *opaque.Test
	texts func(*ast.Term) []*ast.Term
}{
	ast.StartsWith.Name:     {opaque.StartsWith, textsOf},
	ast.EndsWith.Name:       {opaque.EndsWith, textsOf},
	ast.AnyPrefixMatch.Name: {opaque.StartsWith, elementTexts},
	ast.AnySuffixMatch.Name: {opaque.EndsWith, elementTexts},
}

// requirements returns what an expression requires. Each alone is enough to know that it does not hold.
func (v *ruleValues) requirements(e *ast.Expr) []requirement {
	if e.Negated || len(e.With) > 0 || !e.IsCall() {
		return nil
	}
	name, operands := e.Operator().String(), e.Operands()
	switch {
	case name == ast.GlobMatch.Name && len(operands) == 3:
		return v.texts(operands[2], opaque.StartsWith, beginningOf(operands[0], operands[1]))
	case len(operands) != 2:
		return nil
	}
	a, b := operands[0], operands[1]
	switch name {
	case ast.Equality.Name, ast.Equal.Name:
		return append(v.equality(a, b), v.equality(b, a)...)
	case ast.Member.Name:
		return append(v.texts(a, opaque.Equal, elementsLike(b, scalarOf)), v.member(b, textsOf(a))...)
	}
	if affix, ok := affixTests[name]; ok {
		return v.texts(a, affix.test, affix.texts(b))
	}
	return nil
}

// texts returns what a test of a value with one of some texts requires.
func (v *ruleValues) texts(value *ast.Term, test *opaque.Test, texts []*ast.Term) []requirement {
	ref, ok := v.valueOf(value)
	if !ok || len(texts) == 0 {
		return nil
	}
	return []requirement{{value: ref, test: test, texts: texts, ref: ref, other: otherText}}
}

// member returns what it requires that a text is an element of a value.
func (v *ruleValues) member(value *ast.Term, texts []*ast.Term) []requirement {
	all := v.texts(value, opaque.Member, texts)
	for i := range all {
		all[i].other = ast.NewArray(ast.NewTerm(otherText))
	}
	return all
}

// equality returns what it requires that a value, or one of its elements, is a constant.
func (v *ruleValues) equality(value, constant *ast.Term) []requirement {
	if pattern, ok := constant.Value.(*ast.Array); ok {
		return v.elements(value, pattern)
	}
	if ref, ok := v.resolve(value); ok {
		if whole := v.withoutWildcard(ref); len(whole) < len(ref) {
			return v.member(ast.NewTerm(whole), textsOf(constant))
		}
	}
	return v.texts(value, opaque.Equal, scalarOf(constant))
}

// elements returns what it requires that a value is an array: each element that has to be a text.
func (v *ruleValues) elements(value *ast.Term, pattern *ast.Array) (out []requirement) {
	ref, ok := v.valueOf(value)
	if _, isArgument := argumentOf(ref); !ok || isArgument {
		return nil
	}
	var none []*ast.Term // of the elements is as it has to be
	for range pattern.Len() {
		none = append(none, ast.NewTerm(otherText))
	}
	other := ast.NewArray(none...)
	for i := range pattern.Len() {
		texts := scalarOf(pattern.Elem(i))
		if len(texts) == 0 {
			continue
		}
		out = append(out, requirement{
			value: ref.Append(ast.InternedTerm(i)), test: opaque.Equal, texts: texts, ref: ref, other: other,
		})
	}
	return out
}

// textsOf returns a term that is a text.
func textsOf(t *ast.Term) []*ast.Term {
	if _, ok := t.Value.(ast.String); ok {
		return []*ast.Term{t}
	}
	return nil
}

// scalarOf returns a term that is a text or a number.
func scalarOf(t *ast.Term) []*ast.Term {
	if _, ok := t.Value.(ast.Number); ok {
		return []*ast.Term{t}
	}
	return textsOf(t)
}

// elementTexts returns the elements of a constant array or set of texts; nil for any other term.
func elementTexts(t *ast.Term) []*ast.Term { return elementsLike(t, textsOf) }

// elementsLike returns the elements of a constant array or set, if each is of a kind; nil for any other term.
func elementsLike(t *ast.Term, kind func(*ast.Term) []*ast.Term) (out []*ast.Term) {
	var elements []*ast.Term
	switch collection := t.Value.(type) {
	case *ast.Array:
		elements = elementsOf(collection)
	case ast.Set:
		elements = collection.Slice()
	}
	for _, element := range elements {
		one := kind(element)
		if one == nil {
			return nil
		}
		out = append(out, one...)
	}
	return out
}

// beginningOf returns the text with which all texts begin that a pattern of glob.match matches: that in front of the
// first wildcard. With several delimiters OPA's index takes one for the other.
func beginningOf(pattern, delimiters *ast.Term) []*ast.Term {
	text, isText := pattern.Value.(ast.String)
	delimiter := elementTexts(delimiters)
	if !isText || len(delimiter) != 1 {
		return nil
	}
	plain := string(text)
	if i := strings.IndexAny(plain, `*?[]{}!\`); i >= 0 {
		plain = plain[:i]
	}
	return []*ast.Term{ast.StringTerm(plain)}
}

// argumentOf returns which argument of a function a reference of OPA's index is.
func argumentOf(ref ast.Ref) (int, bool) {
	if len(ref) != 2 || !ref[0].Equal(ast.FunctionArgRootDocument) {
		return 0, false
	}
	number, ok := ref[1].Value.(ast.Number)
	i, isInt := number.Int()
	return i, ok && isInt
}

// isPath reports whether a reference is a path of the input, with names and positions as its keys.
func isPath(ref ast.Ref) bool {
	if len(ref) < 2 || !ref[0].Equal(ast.InputRootDocument) {
		return false
	}
	return !slices.ContainsFunc(ref[1:], func(key *ast.Term) bool {
		switch k := key.Value.(type) {
		case ast.String:
			return false
		case ast.Number:
			i, ok := k.Int()
			return !ok || i < 0
		}
		return true
	})
}

// withoutWildcard returns a reference without a variable at its end that may be any key.
func (v *ruleValues) withoutWildcard(ref ast.Ref) ast.Ref {
	if name, ok := ref[len(ref)-1].Value.(ast.Var); ok && len(ref) > 1 && v.uses[name] == 1 {
		return ref[:len(ref)-1]
	}
	return ref
}
