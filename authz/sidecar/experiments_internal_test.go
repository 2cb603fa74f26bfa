package sidecar

import (
	"testing"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/testkit"
)

// TestACompiledExperimentEndsNoOther has it become known that an experiment compiles while a
// snapshot is made that has another one.
func TestACompiledExperimentEndsNoOther(t *testing.T) {
	live := allowing("", "input.x == 1")
	s, _, _ := holding(t, live)
	defer s.candidates.closeExcept(nil)
	started := func(on *snapshot, id string, condition string) *snapshot {
		next := state(live)
		next.Experiments = []*adminpb.PolicyExperiment{{Name: string(web) + "/experiments/" + id, Policy: allowing("", condition)}}
		return s.with(t.Context(), on, authz.Update{Policies: map[authz.PolicyName]authz.PolicyState{web: next}})
	}
	for _, condition := range []string{"input.x == 2", "input.x = "} {
		before := started(s.current.Load(), "before", condition)
		s.current.Store(before)
		first := before.policies[web].experiments[0].Candidate
		being := started(before, "being-started", "input.x == 3").policies[web].experiments[0].Candidate
		testkit.Closed(t, "first is ready", first.Ready())
		s.markCompiled(first)
		if !s.candidates.all[being] {
			t.Errorf("%q: the candidate of the snapshot that is being made was closed", condition)
		}
		if got, want := s.candidates.all[first], first.Err() == nil; got != want {
			t.Errorf("%q: the candidate is there: %v, want %v", condition, got, want)
		}
	}
}
