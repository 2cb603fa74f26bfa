package rego

import "strings"

// Narrowed returns how many loops of a program have an index.
func Narrowed(p *Program) (n int) {
	for _, module := range p.compiler.Modules {
		n += strings.Count(module.String(), "("+variablePrefix)
	}
	return n
}

// Builtins returns the built-ins that a policy may call, and the lists of pure.go.
func Builtins() (all []string, isPure, isImpure map[string]bool) {
	for _, b := range capabilities.Builtins {
		all = append(all, b.Name)
	}
	return all, pure, impure
}

// RememberedTokens returns about how many bytes the answers about tokens take, and the
// most that they may.
func RememberedTokens() (bytes, limit uint64) {
	tokens.CleanUp()
	for _, a := range tokens.All() {
		bytes += uint64(a.weight)
	}
	return bytes, tokenBytes
}
