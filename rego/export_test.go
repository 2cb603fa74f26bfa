package rego

// Builtins returns the built-ins that a policy may call, and the lists of pure.go.
func Builtins() (all []string, isPure, isImpure map[string]bool) {
	for _, b := range capabilities.Builtins {
		all = append(all, b.Name)
	}
	return all, pure, impure
}
