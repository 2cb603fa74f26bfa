// Package history says in words how the contents of a policy became live, the same on a
// terminal and on the page, and finds what a commit has left behind.
//
// Its texts may quote IDs that others chose: anyone who shows them escapes them for where they
// are shown.
package history

import (
	"strconv"

	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// words :: method → what it does.
var words = map[string]string{
	"create": "apply", "update": "apply", "undelete": "undelete", "rollback": "rollback", "commit": "commit", "promote": "promotion",
}

// Words says how a content became live: "apply", "commit of tighter", "commit of tighter with
// 2 accepted differences", "promotion from dev".
func Words(a *adminpb.PolicyRevision_Activation) string {
	text := words[a.GetVerb()]
	if text == "" {
		text = a.GetVerb()
	}
	if a.GetExperiment() != "" {
		text += " of " + authz.ResourceName(a.Experiment).ID()
	}
	switch n := a.GetAcceptanceCount(); {
	case n == 1:
		text += " with 1 accepted difference"
	case n > 1:
		text += " with " + strconv.Itoa(int(n)) + " accepted differences"
	}
	if a.GetSourceRevision() != "" {
		text += " from " + authz.ResourceName(string(authz.ResourceName(a.SourceRevision).Location())).ID()
	}
	return text
}

// First is how the content of a revision became live for the first time; nil if that is not
// known.
func First(r *adminpb.PolicyRevision) *adminpb.PolicyRevision_Activation {
	if n := len(r.GetActivations()); n > 0 {
		return r.Activations[n-1]
	}
	return nil
}

// Again is how it became live the last time; nil if that was the first time.
func Again(r *adminpb.PolicyRevision) *adminpb.PolicyRevision_Activation {
	if len(r.GetActivations()) > 1 {
		return r.Activations[0]
	}
	return nil
}

// Of says how the content of a revision became live the first time and, if it did so again, the
// last time: "apply, then rollback". It is empty if that is not known.
func Of(r *adminpb.PolicyRevision) string {
	text := Words(First(r))
	if again := Again(r); again != nil {
		text += ", then " + Words(again)
	}
	return text
}

// IsAppliedBy reports whether the content of a revision became live the last time by an apply of a principal. It
// reports true if how it became live is not known.
func IsAppliedBy(principal string, r *adminpb.PolicyRevision) bool {
	if len(r.GetActivations()) == 0 {
		return true
	}
	last := r.Activations[0]
	return (last.Verb == "create" || last.Verb == "update") && last.Creator == principal
}

// CommitOf finds the last commit of an experiment, by its resource name, and the revision that
// it made live; nil if there is none.
func CommitOf(experiment string, revisions []*adminpb.PolicyRevision) (of *adminpb.PolicyRevision, last *adminpb.PolicyRevision_Activation) {
	for _, r := range revisions {
		for _, a := range r.GetActivations() {
			if a.Experiment == experiment && (last == nil || a.ActivateTime.AsTime().After(last.ActivateTime.AsTime())) {
				of, last = r, a
			}
		}
	}
	return of, last
}
