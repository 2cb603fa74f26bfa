package bounds

import (
	"fmt"
	"strings"
	"text/template"
	"text/template/parse"

	"github.com/open-policy-agent/opa/v1/ast"
)

// The functions that look at the bounds of a rendering. A template can call them by name,
// which does nothing but look.
const (
	roundName = "understudyRound"
	enterName = "understudyEnter"
	leaveName = "understudyLeave"
)

// ticks are nodes of a template: calls of the functions above, which write nothing. A
// loop of a template becomes, in effect:
//
//	{{range .numbers}}{{understudyRound}} … {{end}}
type ticks struct{ round, enter, leave parse.Node }

// functions are those of a template. Those that make text stand in for the ones of the
// package, of which they make no more than a limit.
func (r *rendering) functions() template.FuncMap {
	return template.FuncMap{
		roundName:  func() (string, error) { return "", r.look() },
		enterName:  r.enter,
		leaveName:  func() string { r.calls--; return "" },
		"print":    r.making(1, func(args ...any) string { return fmt.Sprint(args...) }),
		"println":  r.making(1, func(args ...any) string { return fmt.Sprintln(args...) }),
		"urlquery": r.making(3, template.URLQueryEscaper),
		"html":     r.making(5, template.HTMLEscaper),
		"js":       r.making(6, template.JSEscaper),
		"printf": func(format string, args ...any) (string, error) {
			verbs := strings.Count(format, "%")
			cost := len(format) + verbs*(400+widestField(format)+10*sizeOf(args))
			return r.make(cost, func() string { return fmt.Sprintf(format, args...) })
		},
	}
}

// enter counts how deep templates call one another. The stack of a goroutine has a
// limit, and beyond it the process ends; no recover helps.
func (r *rendering) enter() (string, error) {
	if r.calls++; r.calls > maxCalls && r.halt == nil {
		r.halt = exceeded(r.bctx, ast.RenderTemplate.Name, maxCalls, "templates within one another")
	}
	return "", r.look()
}

// making bounds a function that makes text, which is at most so many times as long as
// its arguments.
func (r *rendering) making(factor int, f func(...any) string) func(...any) (string, error) {
	return func(args ...any) (string, error) {
		return r.make(factor*sizeOf(args), func() string { return f(args...) })
	}
}

// make makes a text, unless it would be too long. It asks before it calls f: one printf
// with a width of a million would be enough otherwise.
func (r *rendering) make(cost int, f func() string) (string, error) {
	if cost > 8*maxOutput || r.made > 8*maxOutput {
		return "", r.tooLong()
	}
	s := f()
	r.made += len(s)
	return s, r.look()
}

// sizeOf is about how long the text of a value is. It stops counting far above the limit.
func sizeOf(v any) int {
	n := 1
	switch v := v.(type) {
	case string:
		return len(v)
	case []any:
		for _, element := range v {
			if n += 1 + sizeOf(element); n > 16*maxOutput {
				break
			}
		}
	case map[string]any:
		for key, element := range v {
			if n += 2 + len(key) + sizeOf(element); n > 16*maxOutput {
				break
			}
		}
	case fmt.Stringer: // json.Number
		return len(v.String())
	}
	return n
}

// parse parses a template and puts ticks into each loop and each template.
func (r *rendering) parse(text string) (*template.Template, error) {
	functions := r.functions()
	t, err := template.New("template").Funcs(functions).Parse(text)
	if err != nil {
		return nil, err
	}
	calls := "{{" + roundName + "}}{{" + enterName + "}}{{" + leaveName + "}}"
	made, err := template.New("ticks").Funcs(functions).Parse(calls)
	if err != nil {
		return nil, err
	}
	nodes := made.Root.Nodes
	tick := ticks{nodes[0], nodes[1], nodes[2]}
	for _, one := range t.Templates() {
		if one.Tree != nil && one.Root != nil {
			tick.insert(one.Root)
			prepend(one.Root, tick.enter)
			one.Root.Nodes = append(one.Root.Nodes, tick.leave)
		}
	}
	return t, nil
}

// insert puts a tick at the beginning of each loop in a list.
func (t ticks) insert(list *parse.ListNode) {
	if list == nil {
		return
	}
	for _, node := range list.Nodes {
		switch n := node.(type) {
		case *parse.RangeNode:
			t.insert(n.List)
			t.insert(n.ElseList)
			prepend(n.List, t.round)
		case *parse.IfNode:
			t.insert(n.List)
			t.insert(n.ElseList)
		case *parse.WithNode:
			t.insert(n.List)
			t.insert(n.ElseList)
		}
	}
}

func prepend(list *parse.ListNode, node parse.Node) {
	list.Nodes = append([]parse.Node{node}, list.Nodes...)
}
