package change

import (
	"slices"
	"strings"
)

// headShape is the text of a head without the constants in its value; of a default, which has nothing else, without the
// value.
func (d *definition) headShape(of *body, by variableNames) string {
	if of.rule.Head.Value == nil {
		return d.headText(of, by)
	}
	r := *of.rule
	head := *r.Head
	if r.Default {
		head.Value = placeholder(nil)
	} else {
		head.Value = mapTerm(head.Value, placeholder)
	}
	r.Head = &head
	return d.headText(&body{rule: &r}, by)
}

// headText is the text of the head of a body, and whether it is a default.
func (d *definition) headText(of *body, by variableNames) string {
	text := d.name + "\n" + d.scope.text(of.rule.Head, by)
	if of.rule.Default {
		text = "default " + text
	}
	return text
}

// bodyText is the text of a body with its head. The order of expressions makes no difference.
func (d *definition) bodyText(of *body, by variableNames) string {
	var lines []string
	for _, e := range of.expressions {
		lines = append(lines, d.scope.text(e.ast, by))
	}
	slices.Sort(lines)
	return d.headText(of, by) + "\n" + strings.Join(lines, "\n")
}

// text is that of the whole definition.
func (d *definition) text() string {
	by := numbered(d.scope.locals(d.bodies[0].rule))
	var out strings.Builder
	for _, of := range d.bodies {
		out.WriteString(d.bodyText(of, by) + "\nelse ")
	}
	return out.String()
}
