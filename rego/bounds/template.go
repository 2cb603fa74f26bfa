package bounds

import (
	"errors"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

const (
	// maxOutput is how much a template writes, and how much text it makes on the way, in
	// bytes.
	maxOutput = 1 << 20
	// maxTemplate is how long a template is, in bytes.
	maxTemplate = 256 << 10
	// maxCalls is how deep templates call one another: each call takes some kilobytes of
	// stack.
	maxCalls = 1000
)

// renderTemplate does what strings.render_template does, with the same package of Go, and
// looks at the deadline in each round of a loop and each call of a template. What OPA
// does can neither be cancelled nor estimated from its operands: three nested loops over two
// thousand numbers, in a template of a hundred bytes, write some gigabytes.
func renderTemplate(original topdown.BuiltinFunc) topdown.BuiltinFunc {
	return func(bctx topdown.BuiltinContext, operands []*ast.Term, iter func(*ast.Term) error) error {
		text, ok := operands[0].Value.(ast.String)
		variables, isObject := operands[1].Value.(ast.Object)
		if !ok || !isObject {
			return original(bctx, operands, iter)
		}
		if len(text) > maxTemplate || size(operands[1:2]) > maxValues {
			return exceeded(bctx, ast.RenderTemplate.Name, maxTemplate, "bytes of the template")
		}
		var data map[string]any
		if err := ast.As(variables, &data); err != nil {
			return err
		}
		r := &rendering{bctx: bctx}
		t, err := r.parse(string(text))
		if err != nil {
			return err
		}
		err = t.Execute(r, data)
		switch {
		case r.halt != nil:
			return r.halt
		case err != nil:
			return err
		}
		return iter(ast.StringTerm(strings.ReplaceAll(r.out.String(), "<no value>", "<undefined>")))
	}
}

// rendering is one execution of a template. It implements io.Writer.
type rendering struct {
	bctx topdown.BuiltinContext
	out  strings.Builder
	// made is how much text the functions of the template have made.
	made int
	// calls is how many templates are around the present place.
	calls int
	// halt is why the rendering ended before its time.
	halt error
}

var errEnded = errors.New("the rendering was ended")

// Write adds to the output, as long as there is room and time.
func (r *rendering) Write(p []byte) (int, error) {
	if r.out.Len()+len(p) > maxOutput {
		return 0, r.tooLong()
	}
	if err := r.look(); err != nil {
		return 0, err
	}
	return r.out.Write(p)
}

// look ends the rendering when the evaluation is cancelled. The error stops the
// template; why it stopped is in halt, since the package template wraps what it is
// given.
func (r *rendering) look() error {
	if r.halt == nil && isCancelled(r.bctx) {
		r.halt = cancelled(r.bctx, ast.RenderTemplate.Name)
	}
	if r.halt != nil {
		return errEnded
	}
	return nil
}

func (r *rendering) tooLong() error {
	r.halt = exceeded(r.bctx, ast.RenderTemplate.Name, maxOutput, "bytes of the output")
	return errEnded
}
