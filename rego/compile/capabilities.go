package compile

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// forbidden are the built-ins that reach out of the evaluation: to the network, or into
// the environment of the process, where secrets of the operator are. Policies are
// written by others than those who run the server. They fail to compile with one of
// these, rather than at the first request.
var forbidden = []string{
	ast.HTTPSend.Name,
	ast.NetLookupIPAddr.Name,
	ast.OPARuntime.Name,
}

// insteadOf says how a policy gets what a forbidden built-in would have brought, if a
// message of OPA is about one.
func insteadOf(message string) string {
	name, ok := strings.CutPrefix(message, "undefined function ")
	if !ok || !slices.Contains(forbidden, name) {
		return ""
	}
	return ". A policy here reaches nothing outside of it: put what it needs into the policy's data, " +
		"or ask a service by a rule of the kind externalService"
}

// Capabilities are what a policy may use: this version of OPA less the forbidden
// built-ins, and no host to fetch from. AllowNet is empty, not nil: nil would mean
// every host. It must not be changed: the compilers of all goroutines share it.
var Capabilities = restricted()

func restricted() *ast.Capabilities {
	c := ast.CapabilitiesForThisVersion()
	c.Builtins = slices.DeleteFunc(c.Builtins, func(b *ast.Builtin) bool {
		return slices.Contains(forbidden, b.Name)
	})
	c.AllowNet = []string{}
	return c
}
