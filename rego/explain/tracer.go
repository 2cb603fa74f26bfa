package explain

import (
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

const (
	// maxFrames bounds how many evaluations of bodies are watched: a function may be called
	// for each entry of the data. What comes later is not seen.
	maxFrames = 50_000
	// maxRules and maxParts bound a Trace.
	maxRules = 256
	maxParts = 64
)

// Tracer watches one evaluation. It implements topdown.QueryTracer, and is used by the
// goroutine of the evaluation.
type Tracer struct {
	// frames :: the number that OPA gives to an evaluation of a body → what is known of it.
	frames map[uint64]*frame
	// failed are the expressions that failed, wherever they are.
	failed map[*ast.Expr]bool
}

// frame is one evaluation of the body of a rule.
type frame struct {
	rule *ast.Rule
	// reached is the index of the last expression that was begun; -1 if none was.
	reached int
	held    bool
}

// NewTracer returns a tracer for one evaluation.
func NewTracer() *Tracer {
	return &Tracer{frames: make(map[uint64]*frame), failed: make(map[*ast.Expr]bool)}
}

// Enabled implements topdown.QueryTracer.
func (*Tracer) Enabled() bool { return true }

// Config implements topdown.QueryTracer: nothing is asked of variables, which have values.
func (*Tracer) Config() topdown.TraceConfig { return topdown.TraceConfig{} }

// TraceEvent implements topdown.QueryTracer.
func (t *Tracer) TraceEvent(e topdown.Event) {
	switch e.Op {
	case topdown.EnterOp:
		if rule, ok := e.Node.(*ast.Rule); ok && len(t.frames) < maxFrames {
			t.frames[e.QueryID] = &frame{rule: rule, reached: -1}
		}
	case topdown.EvalOp:
		if f, expr := t.frames[e.QueryID], e.Node.(*ast.Expr); f != nil {
			f.reached = max(f.reached, expr.Index)
		}
	case topdown.ExitOp:
		if _, ok := e.Node.(*ast.Rule); ok && t.frames[e.QueryID] != nil {
			t.frames[e.QueryID].held = true
		}
	case topdown.FailOp:
		if expr, ok := e.Node.(*ast.Expr); ok {
			t.failed[expr] = true
		}
	}
}

// Trace returns what was seen in an evaluation of a reference.
func (t *Tracer) Trace(compiler *ast.Compiler, ref ast.Ref) Trace {
	b := &builder{compiler: compiler, tracer: t, outcomes: t.outcomes(), done: make(map[string]bool)}
	b.trace.Roots = b.names(ref)
	for waiting := b.trace.Roots; len(waiting) > 0 && len(b.trace.Rules) < maxRules; {
		name := waiting[0]
		waiting = append(waiting[1:], b.add(name)...)
	}
	return b.trace
}

// outcome is what became of all evaluations of one body.
type outcome struct {
	held, missed bool
	// reached is that of the evaluation that came farthest without being true.
	reached int
}

func (t *Tracer) outcomes() map[*ast.Rule]*outcome {
	out := make(map[*ast.Rule]*outcome)
	for _, f := range t.frames {
		o := out[f.rule]
		if o == nil {
			o = &outcome{reached: -1}
			out[f.rule] = o
		}
		if f.held {
			o.held = true
			continue
		}
		o.missed, o.reached = true, max(o.reached, f.reached)
	}
	return out
}
