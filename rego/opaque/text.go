package opaque

import (
	"fmt"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// maxText is the length of the longest text of a constant in the text of a question, in bytes.
const maxText = 80

// String says what is asked. It has nothing of a request.
func (q *Question) String() string {
	switch q.kind {
	case askContent:
		return "the content of " + q.a.text()
	case askLength:
		return "the length of " + q.a.text()
	case askSeal:
		return "all of " + q.a.text()
	case askTexts:
		return fmt.Sprintf("%s of %s, for all texts of the policy", q.test.name, q.a.text())
	}
	return fmt.Sprintf("%s of %s", q.test.name, strings.TrimSuffix(q.a.text()+", "+q.b.text(), ", "))
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
	}
	operands := make([]string, v.from.function.Arity)
	for i := range operands {
		operands[i] = v.from.operands[i].text()
	}
	return v.from.function.Name + "(" + strings.Join(operands, ", ") + ")"
}
