package coverage

import (
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// maxFrames bounds how many evaluations of targets are watched at once; more are not seen.
const maxFrames = 10_000

// Tracer watches evaluations of one side for its targets. It implements topdown.QueryTracer,
// and is used by one goroutine.
type Tracer struct {
	targets []Target
	// at :: where a rule begins → index of the target.
	at map[place]int
	// known :: rule → index of the target; -1 if it is none.
	known  map[*ast.Rule]int
	frames map[uint64]*frame
	// within :: query → the query that it was begun in; of the first one, 0, itself. last is the
	// query of the last event.
	within map[uint64]uint64
	last   uint64
	seen   []Seen
}

type place struct {
	file         string
	line, column int
}

// frame is one evaluation of a target's body.
type frame struct {
	target int
	// last is the expression that was begun last.
	last    *ast.Expr
	reached int
	held    bool
}

// NewTracer returns a tracer for targets.
func NewTracer(targets []Target) *Tracer {
	t := &Tracer{
		targets: targets, at: make(map[place]int, len(targets)), known: make(map[*ast.Rule]int),
		frames: make(map[uint64]*frame), within: make(map[uint64]uint64), seen: make([]Seen, len(targets)),
	}
	for i, target := range targets {
		t.at[place{target.File, target.Line, target.Column}] = i
	}
	return t
}

// Enabled implements topdown.QueryTracer.
func (*Tracer) Enabled() bool { return true }

// Config implements topdown.QueryTracer: nothing is asked of variables, which have values.
func (*Tracer) Config() topdown.TraceConfig { return topdown.TraceConfig{} }

// TraceEvent implements topdown.QueryTracer.
func (t *Tracer) TraceEvent(e topdown.Event) {
	if e.QueryID != t.last {
		t.within[e.QueryID], t.last = e.ParentID, e.QueryID
	}
	switch e.Op {
	case topdown.EnterOp:
		if rule, ok := e.Node.(*ast.Rule); ok && len(t.frames) < maxFrames {
			if i := t.target(rule); i >= 0 {
				t.frames[e.QueryID] = &frame{target: i, reached: -1}
			}
		}
	case topdown.EvalOp:
		f := t.frames[e.QueryID]
		if f == nil {
			return
		}
		if expr := e.Node.(*ast.Expr); expr.Index > f.reached {
			f.last, f.reached = expr, expr.Index
		}
	case topdown.ExitOp:
		if f := t.frames[e.QueryID]; f != nil {
			if _, ok := e.Node.(*ast.Rule); ok {
				f.held = true
				t.seen[f.target] |= True
			}
		}
	}
}

// target returns the index of the target that a rule is; -1 if it is none.
func (t *Tracer) target(rule *ast.Rule) int {
	i, known := t.known[rule]
	if known {
		return i
	}
	i, ok := t.at[place{rule.Location.File, rule.Location.Row, rule.Location.Col}]
	if !ok {
		i = -1
	}
	t.known[rule] = i
	return i
}

// End ends an evaluation, that of one path. Of one that failed nobody knows whether the rules
// that it was in the midst of would have been true.
func (t *Tracer) End(failed bool) {
	if failed {
		t.forgetUnfinished()
	}
	for _, f := range t.frames {
		if !f.held && t.targets[f.target].decisive(f.last) {
			t.seen[f.target] |= False
		}
	}
	// The next evaluation counts its queries from 0 again.
	clear(t.frames)
	clear(t.within)
	t.last = 0
}

// forgetUnfinished forgets the rule of the last event, and those that asked for it.
func (t *Tracer) forgetUnfinished() {
	for id := t.last; ; {
		delete(t.frames, id)
		outer := t.within[id]
		if outer == id { // the first query is in none
			return
		}
		id = outer
	}
}

// Seen returns what happened to each target in the evaluations that have ended.
func (t *Tracer) Seen() []Seen { return t.seen }

// decisive reports whether a failure at an expression counts. Nil is one before all.
func (t Target) decisive(e *ast.Expr) bool {
	if len(t.Decisive) == 0 {
		return !t.Always
	}
	if e == nil || e.Location == nil {
		return false
	}
	for _, s := range t.Decisive {
		// The compiler makes several expressions of one, each with its part of the source.
		if e.Location.Offset >= s.Offset && e.Location.Offset < s.Offset+s.Length {
			return true
		}
	}
	return false
}
