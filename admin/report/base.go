package report

import (
	"slices"
	"strings"

	adminpb "understudy/admin/v1"
	"understudy/rego/change"
)

// maxTakenBack is the bound that the API documents.
const maxTakenBack = 20

// Base is what became of the changes of the live policy since the base of an experiment.
type Base struct {
	// Revision is the name of the base; empty if it is not known.
	Revision string
	// Known says that Changes are all that a commit would take back.
	Known   bool
	Changes []*adminpb.Report_TakenBackChange
	// Activation is how the live policy became live; nil if that is not known.
	Activation *adminpb.PolicyRevision_Activation
}

// TakenBack returns the changes of the live policy since a base that an experiment does not have. since is in what the
// live policy differs from the base, own in what the experiment differs from it, and ahead in what the live policy
// differs from the experiment.
//
// A change that is ahead of the experiment is taken back. One that is the experiment's own, or where the experiment
// lacks nothing of the live policy, is no loss. Anything else counts as overridden, so that no change is missing: the
// experiment has something third there, or wrote the change otherwise. A list that is nil is not known: then the live
// policy may have changed anything.
func TakenBack(since, own, ahead *change.List) (out []*adminpb.Report_TakenBackChange) {
	if since.None() {
		return nil
	}
	if since == nil || own == nil || ahead == nil {
		return []*adminpb.Report_TakenBackChange{{State: adminpb.Report_TakenBackChange_OVERRIDDEN}}
	}
	has, lacks := idsOf(own), idsOf(ahead)
	for _, item := range since.Items {
		lost := &adminpb.Report_TakenBackChange{
			State: adminpb.Report_TakenBackChange_OVERRIDDEN, Kind: adminpb.Report_Item_ItemKind(item.Kind),
			File: item.File, Line: int32(item.Line), Rule: item.Rule, DataPath: item.Path, // a line
			BaseText: item.Live, PolicyText: item.Candidate,
		}
		switch {
		case lacks[item.ID]:
			lost.State = adminpb.Report_TakenBackChange_TAKEN_BACK
		case has[item.ID] || ahead.More == 0 && isContained(item, ahead.Items):
			continue
		}
		out = append(out, lost)
	}
	for range since.More {
		out = append(out, &adminpb.Report_TakenBackChange{State: adminpb.Report_TakenBackChange_OVERRIDDEN})
	}
	return out
}

// isContained reports whether an experiment has a change of the live policy: in the same rule, or at the same place of
// data, nothing of that kind is ahead of the experiment. It may have more there.
func isContained(of change.Item, ahead []change.Item) bool {
	return !slices.ContainsFunc(ahead, func(a change.Item) bool {
		return samePlace(of, a) && !isOtherElement(of, a) && (of.Side == change.Both || a.Side == change.Both || a.Side == of.Side)
	})
}

// isOtherElement reports whether two items are two elements of one array, each of which only one side has.
func isOtherElement(a, b change.Item) bool {
	return a.Element && b.Element && a.Path == b.Path && a.Side == b.Side && (a.Live != b.Live || a.Candidate != b.Candidate)
}

// samePlace reports whether two items are about one rule, or about places of data of which one is in the other.
func samePlace(a, b change.Item) bool {
	if a.Path == "" || b.Path == "" {
		return a.Path == b.Path && a.Rule == b.Rule
	}
	return isWithin(a.Path, b.Path) || isWithin(b.Path, a.Path)
}

// isWithin reports whether a place of data is another one, or in it.
func isWithin(path, other string) bool {
	rest, within := strings.CutPrefix(path, other)
	return within && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// idsOf :: ID of an item → it is in the list.
func idsOf(list *change.List) map[string]bool {
	ids := make(map[string]bool, len(list.Items))
	for _, item := range list.Items {
		ids[item.ID] = true
	}
	return ids
}

// setBase writes what a commit would take back.
func setBase(r *adminpb.Report, base Base) {
	r.BaseRevision = base.Revision
	if !base.Known {
		return
	}
	n := int64(len(base.Changes))
	r.TakenBackCount = &n
	r.TakenBackChanges = firstOf(base.Changes, maxTakenBack)
	if n > 0 {
		r.PolicyActivation = base.Activation
	}
}

// TakesBack reports whether a commit would take back or override a change of the live policy.
func TakesBack(r *adminpb.Report) bool { return r.GetTakenBackCount() > 0 }

// MayTakeBack reports whether a requirement allows what a commit would take back.
func MayTakeBack(r *adminpb.Report) bool {
	for _, q := range r.GetRequirements() {
		if nameOf(q.GetRequirement()) == takenBack {
			return q.GetMet()
		}
	}
	return false
}

// maxTakenBackCount is a limit on the changes of the live policy that are taken back. More traffic never helps.
func maxTakenBackCount() requirement {
	q := maxCount(takenBack, func(r *adminpb.CommitRequirements) **int64 { return &r.MaxTakenBackCount }, func(m measured) (int64, string) {
		return m.report.GetTakenBackCount(), ""
	})
	judge := q.judge
	q.judge = func(r *adminpb.CommitRequirements, m measured) judgement {
		v := judge(r, m)
		v.have = takenBackText(m.report)
		if m.report.TakenBackCount == nil {
			v.have, v.met, v.unreachable = "not known: name the revision that it was made from, with `understudy rebase --keep`", false, true
		}
		return v
	}
	return q
}

// takenBackText says how many changes of the live policy a commit would take back.
func takenBackText(r *adminpb.Report) string {
	return Counted(r.GetTakenBackCount(), "change") + " of the live policy"
}

// impliedResult is the result of taken-back=0 where something is required and nothing is said about that: who states
// what a commit has to show does not mean to undo a change that it was not made from. Nil if nothing is taken back.
func impliedResult(r *adminpb.Report) *adminpb.Report_RequirementResult {
	if !TakesBack(r) || len(r.GetRequirements()) == 0 {
		return nil
	}
	for _, q := range r.Requirements {
		if nameOf(q.GetRequirement()) == takenBack {
			return nil
		}
	}
	none := int64(0)
	results := Judge(&adminpb.CommitRequirements{MaxTakenBackCount: &none}, adminpb.Report_RequirementResult_CALL, r, Committer{})
	return results[0]
}
