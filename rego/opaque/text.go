package opaque

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// maxText is the length of the longest text of a constant in the text of a question, in bytes.
const maxText = 40

// String says what is asked. It has nothing of a request.
func (q *Question) String() string {
	switch q.kind {
	case askContent:
		return "the content of " + q.a.text()
	case askKeys:
		return "the keys of " + q.a.text()
	case askSeal:
		return "the text that has " + q.a.text()
	case askTexts:
		if q.test.swapped {
			return q.test.text("…", q.a.text()) + ", for which texts of the policy"
		}
		return q.test.text(q.a.text(), "…") + ", for which texts of the policy"
	}
	a, b := q.a.text(), q.b.text()
	if q.kind == askBound {
		const computed = "a number that was computed"
		a, b = cmp.Or(a, computed), cmp.Or(b, computed)
	}
	return q.test.text(a, b)
}

// text says what the test asks about values.
func (t *Test) text(a, b string) string {
	switch t {
	case Present, Holds, Usual:
		return "whether " + a + " " + t.name
	case HasLength:
		return "whether the length of " + a + " is " + b
	case StartsWith, EndsWith:
		return t.name + "(" + a + ", " + b + ")"
	}
	return a + " " + t.name + " " + b
}

// text names a value by its derivation.
func (v Value) text() string {
	switch {
	case v.IsNone():
		return ""
	case !v.opaque():
		text := v.term.String()
		if len(text) > maxText {
			text = text[:maxText] + "…"
		}
		return text
	case v.from.path != nil:
		return (append(ast.Ref{ast.InputRootDocument}, v.from.path.Keys...)).String()
	case v.isComposite():
		return v.compositeText()
	case v.from.function == getAt:
		return getAt.Text(v.from.operands[0].text(), "_")
	}
	operands := make([]string, v.from.function.Arity)
	for i := range operands {
		operands[i] = v.from.operands[i].text()
	}
	return v.from.function.Text(operands...)
}

// Text is how Rego writes what the function makes of operands that are written so. What tokens are verified
// with is left out.
func (f *Function) Text(operands ...string) string {
	switch b := ast.BuiltinMap[f.Name]; {
	case f.Part && len(operands) == 2:
		if name, err := strconv.Unquote(operands[1]); err == nil && ast.IsVarCompatibleString(name) {
			return operands[0] + "." + name
		}
		return operands[0] + "[" + operands[1] + "]"
	case b != nil && b.Infix != "" && len(operands) == 2:
		return operands[0] + " " + b.Infix + " " + operands[1]
	case strings.HasPrefix(f.Name, "io.jwt.") && len(operands) > 1:
		operands = []string{operands[0], "…"}
	}
	return f.Name + "(" + strings.Join(operands, ", ") + ")"
}
