package authz

import (
	"sync/atomic"

	"understudy/rego"
)

// ReadSet is what a compiled policy can read of its input.
type ReadSet struct {
	*rego.Reads
	// name is the canonical form: sets of one name are equal.
	name    string
	derived atomic.Value
}

func newReadSet(reads *rego.Reads) *ReadSet { return &ReadSet{Reads: reads, name: reads.String()} }

// Derived returns what a front has derived of the set: derive's value, made on first
// use. All fronts of a process derive the same type.
func (s *ReadSet) Derived(derive func(*rego.Reads) any) any {
	if v := s.derived.Load(); v != nil {
		return v
	}
	v := derive(s.Reads)
	s.derived.Store(v)
	return v
}
