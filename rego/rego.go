// Package rego is the policy decision point: it compiles Rego modules and evaluates
// their rules. It and the rooms below it alone import OPA.
//
// A [Source] is compiled once into an immutable [Program], under restricted
// capabilities: a policy reaches nothing but its input, its data and the clock it
// is given. What one call of a built-in may cost is bounded; see package
// rego/bounds. A Program is then evaluated by any number of
// goroutines. What a value means is left to the caller.
package rego

import "google.golang.org/protobuf/types/known/structpb"

// Source is what a Program is compiled from.
type Source struct {
	// Modules :: file name → Rego v1 text.
	Modules map[string]string
	// Data is the document that the modules read as `data`, in the types of
	// encoding/json or as *structpb.Value ([DataOf]). The Program keeps it: it must not be
	// modified any more.
	Data map[string]any
	// Paths are the rules that will be evaluated, as paths below data, such as
	// envoy/authz/allow. Each has to exist in the modules or in the data.
	Paths []string
	// Optional are rules that may be evaluated if they are there; see [Program.Has].
	Optional []string
}

// DataOf returns a Struct as the data of a [Source], of which [Compile] makes values without maps in between.
func DataOf(s *structpb.Struct) map[string]any {
	out := make(map[string]any, len(s.GetFields()))
	for name, value := range s.GetFields() {
		out[name] = value
	}
	return out
}
