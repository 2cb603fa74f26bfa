package rego

import (
	"strings"

	"understudy/rego/candidates"
)

// Indexed returns how many loops of a program have a candidate index.
func Indexed(p *Program) (n int) {
	for _, module := range p.compiler.Modules {
		n += strings.Count(module.String(), "("+candidates.VariablePrefix)
	}
	return n
}
