package history_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin/history"
	adminpb "understudy/admin/v1"
)

const policy = "projects/p/locations/l/policies/shop"

func activation(verb, experiment string, at int64) *adminpb.PolicyRevision_Activation {
	a := &adminpb.PolicyRevision_Activation{Verb: verb, ActivateTime: timestamppb.New(time.Unix(at, 0))}
	if experiment != "" {
		a.Experiment = policy + "/experiments/" + experiment
	}
	return a
}

func TestWords(t *testing.T) {
	promoted := activation("promote", "", 1)
	promoted.SourceRevision = "projects/p/locations/dev/policies/shop/revisions/1234"
	accepted := func(n int32) *adminpb.PolicyRevision_Activation {
		a := activation("commit", "tighter", 1)
		a.AcceptanceCount = n
		return a
	}
	for want, a := range map[string]*adminpb.PolicyRevision_Activation{
		"apply": activation("update", "", 1), "commit of tighter": activation("commit", "tighter", 1), "commit of tighter with 1 accepted difference": accepted(1),
		"commit of tighter with 2 accepted differences": accepted(2), "rollback": activation("rollback", "", 1),
		"promotion from dev": promoted, "invent": activation("invent", "", 1), "": nil,
	} {
		if got := history.Words(a); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestFirstAndAgain(t *testing.T) {
	first, last := activation("create", "", 1), activation("rollback", "", 3)
	r := &adminpb.PolicyRevision{Activations: []*adminpb.PolicyRevision_Activation{last, activation("rollback", "", 2), first}}
	if history.First(r) != first || history.Again(r) != last {
		t.Errorf("got %v and %v", history.First(r), history.Again(r))
	}
	if got := history.Of(r); got != "apply, then rollback" || history.Of(nil) != "" {
		t.Errorf("got %q", got)
	}
	once := &adminpb.PolicyRevision{Activations: []*adminpb.PolicyRevision_Activation{first}}
	if history.First(once) != first || history.Again(once) != nil || history.First(nil) != nil || history.Again(nil) != nil {
		t.Error("what became live once, or is not known, did so again")
	}
}

// TestCommitOf: the name of an experiment may have been committed before, by an experiment that
// had it earlier.
func TestCommitOf(t *testing.T) {
	early := &adminpb.PolicyRevision{Name: "early", Activations: []*adminpb.PolicyRevision_Activation{activation("rollback", "", 9), activation("commit", "a", 1)}}
	late := &adminpb.PolicyRevision{Name: "late", Activations: []*adminpb.PolicyRevision_Activation{activation("commit", "a", 5)}}
	other := &adminpb.PolicyRevision{Name: "other", Activations: []*adminpb.PolicyRevision_Activation{activation("commit", "b", 7)}}
	for _, order := range [][]*adminpb.PolicyRevision{{early, late, other}, {other, late, early}} {
		if r, a := history.CommitOf(policy+"/experiments/a", order); r != late || a != late.Activations[0] {
			t.Errorf("got %v, %v", r, a)
		}
		if r, a := history.CommitOf(policy+"/experiments/none", order); r != nil || a != nil {
			t.Errorf("got %v, %v of an experiment that was never committed", r, a)
		}
	}
}
