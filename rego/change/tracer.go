package change

import (
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// maxFrames bounds how many evaluations of targets are watched at once; more are not seen.
const maxFrames = 10_000

// Tracer watches the evaluation of one request on one side for its targets. It implements
// topdown.QueryTracer, and is used by one goroutine.
type Tracer struct {
	watch  *Watch
	frames map[uint64]*frame
	// within :: query → the query that it was begun in; of the first one, 0, itself. last is the query of the
	// last event.
	within map[uint64]uint64
	last   uint64
	// shown :: place of an item → what was shown.
	shown map[int]Shown
}

// Watch has the targets of a program, which many requests share. It is used by one goroutine at a time.
type Watch struct {
	targets []Target
	// at :: where a rule begins → target.
	at map[position]int
	// known :: rule → what is watched of it; nil if nothing is.
	known map[*ast.Rule]*watched
}

type position struct {
	file         string
	line, column int
}

// watched is a rule as it was compiled.
type watched struct {
	rule int
	// conditions are its items with the last of the compiled expressions that each has become.
	conditions []compiledCondition
}

type compiledCondition struct {
	Watched
	last int
}

// NewWatch returns a watch for targets.
func NewWatch(targets []Target) *Watch {
	w := &Watch{targets: targets, at: make(map[position]int, len(targets)), known: make(map[*ast.Rule]*watched)}
	for i, t := range targets {
		w.at[position{t.File, t.Line, t.Column}] = i
	}
	return w
}

// of returns what is watched of a rule; nil if nothing is.
func (w *Watch) of(rule *ast.Rule) *watched {
	out, known := w.known[rule]
	if known {
		return out
	}
	if i, ok := w.at[position{rule.Location.File, rule.Location.Row, rule.Location.Col}]; ok {
		out = w.targets[i].compiled(rule)
	}
	w.known[rule] = out
	return out
}

// compiled finds the expressions of a target in its compiled rule.
func (t Target) compiled(rule *ast.Rule) *watched {
	out := &watched{rule: t.Rule}
	for _, c := range t.Conditions {
		last := -1
		for _, e := range rule.Body {
			if e.Location != nil && c.holds(e.Location.Offset) {
				last = max(last, e.Index)
			}
		}
		if last >= 0 {
			out.conditions = append(out.conditions, compiledCondition{c, last})
		}
	}
	return out
}

// frame is one evaluation of a target's body.
type frame struct {
	of *watched
	// furthest is the expression with the highest place that was begun.
	furthest *ast.Expr
	held     bool
}

// NewTracer returns a tracer for one request.
func (w *Watch) NewTracer() *Tracer {
	return &Tracer{watch: w, frames: make(map[uint64]*frame), within: make(map[uint64]uint64), shown: make(map[int]Shown)}
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
	if e.Op == topdown.EnterOp {
		t.enter(e)
	} else if f := t.frames[e.QueryID]; f != nil {
		f.event(e)
	}
}

// enter begins a frame, of a rule that is watched.
func (t *Tracer) enter(e topdown.Event) {
	rule, ok := e.Node.(*ast.Rule)
	if !ok || len(t.frames) >= maxFrames {
		return
	}
	if of := t.watch.of(rule); of != nil {
		t.frames[e.QueryID] = &frame{of: of}
	}
}

// event notes how far the body comes.
func (f *frame) event(e topdown.Event) {
	switch e.Op {
	case topdown.EvalOp:
		if expr := e.Node.(*ast.Expr); f.furthest == nil || expr.Index > f.furthest.Index {
			f.furthest = expr
		}
	case topdown.ExitOp:
		if _, ok := e.Node.(*ast.Rule); ok {
			f.held = true
		}
	}
}

// End ends an evaluation, that of one path. Of one that failed nobody knows whether the rules that it was in
// the midst of would have been true.
func (t *Tracer) End(failed bool) {
	if failed {
		t.forgetUnfinished()
	}
	for _, f := range t.frames {
		t.note(f)
	}
	// The next evaluation counts its queries from 0 again.
	clear(t.frames)
	clear(t.within)
	t.last = 0
}

// note notes what an evaluation of a body has shown.
func (t *Tracer) note(f *frame) {
	if f.held && f.of.rule >= 0 {
		t.shown[f.of.rule] |= True
	}
	for _, c := range f.of.conditions {
		switch {
		case f.held || f.furthest != nil && f.furthest.Index > c.last:
			t.shown[c.Item] |= True
		case f.furthest != nil && f.furthest.Location != nil && c.holds(f.furthest.Location.Offset):
			t.shown[c.Item] |= False
		}
	}
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

// Shown returns what the request has shown. A condition that was true in one evaluation of its rule and not
// in another, as in a function that is called twice, was true for the request.
func (t *Tracer) Shown() map[int]Shown {
	for item, what := range t.shown {
		if what&True != 0 {
			t.shown[item] = True
		}
	}
	return t.shown
}
