package dependencies

import (
	"slices"
	"testing"

	"understudy/rego/compile"
)

// TestEveryBuiltinIsJudged: a new version of OPA brings built-ins of which somebody
// has to say whether their values can be cached.
func TestEveryBuiltinIsJudged(t *testing.T) {
	var all []string
	for _, b := range compile.Capabilities.Builtins {
		all = append(all, b.Name)
		if pure[b.Name] == impure[b.Name] {
			t.Errorf("%s is in neither list of pure.go, or in both", b.Name)
		}
	}
	for name := range pure {
		if !slices.Contains(all, name) {
			t.Errorf("%s is no built-in any more", name)
		}
	}
}
