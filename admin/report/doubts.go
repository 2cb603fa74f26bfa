package report

import (
	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
)

// DefaultRequirements is what a careful commit requires everywhere: no request is newly denied, newly allowed or
// answered otherwise, or fails; at most 1 % was not compared; and no item of the change is unjudged. Commands
// and the page hold a commit against it if no requirements are given.
const DefaultRequirements = "newly-denied=0,newly-allowed=0,response-changed=0,failed=0,dropped<=1%,unjudged=0"

// defaultRequests is the number of requests that the term [DefaultTerm] requires next to these.
const defaultRequests = "requests>=1000"

// MaxAcceptances is the number of acceptances that an experiment may have: all of them fit into the
// report that a commit leaves behind.
const MaxAcceptances = 50

// NotSaidYet stands for the reason of an acceptance that is worked out before somebody is asked for one. It
// is never kept.
const NotSaidYet = "not said yet"

// Default returns the default requirements, which are the caller's.
func Default() *adminpb.CommitRequirements {
	r, err := Parse(DefaultRequirements)
	if err != nil {
		panic("report: " + err.Error()) // a constant, which tests parse
	}
	return r
}

// Doubts are what a report does not show of what a careful commit requires: what somebody accepts
// who commits all the same.
type Doubts struct {
	// Groups and Items are what can be accepted one by one. An item is a line of the report, or
	// stands for all that there are.
	Groups []*adminpb.Report_Difference
	Items  []*adminpb.Report_Item
	// Unseen are the lines of what Items stand for, whatever the acceptances are made of, and More is how
	// many items are in none of them.
	Unseen []*adminpb.Report_Item
	More   int64
	// Rest are the requirements that are not met even then.
	Rest []*adminpb.Report_RequirementResult
	// Missing are the names of the requirements that the given list lacks; nil if no list was given.
	Missing []string
	// Required is what is still required: of what is in Rest, no more than twice what there is.
	Required *adminpb.CommitRequirements
}

// None says that the report shows all.
func (d Doubts) None() bool { return len(d.Groups)+len(d.Items)+len(d.Rest) == 0 }

// DoubtsOf returns the doubts that a report leaves to who requires what is given, which may be nil: if it
// demands nothing, the default requirements stand in its place, else what it judges is no doubt. What decides and
// no requirement is about ([Missing]) is held against what a careful reviewer asks for: no such request, and
// each item seen. The report may be judged by any requirements, or none.
func DoubtsOf(r *adminpb.Report, given *adminpb.CommitRequirements) Doubts {
	var d Doubts
	var careful *adminpb.CommitRequirements
	if Demands(given) {
		d.Missing = missingFrom(given, r)
		careful = strict(d.Missing)
		if left := Unjudged(r); left > 0 && given.GetMaxUnjudgedCount() >= left { // a limit that no report is ready with
			careful.MaxUnjudgedCount = Default().MaxUnjudgedCount
		}
		d.Required = merged(given, careful)
	} else {
		careful = merged(Default(), strict(missingFrom(Default(), r)))
		d.Required = proto.CloneOf(careful)
	}
	if TakesBack(r) && d.Required.MaxTakenBackCount == nil && !MayTakeBack(r) {
		careful.MaxTakenBackCount, d.Required.MaxTakenBackCount = proto.Int64(0), proto.Int64(0)
	}
	if len(unmetOf(careful, r)) == 0 {
		return d
	}
	r = proto.CloneOf(r)
	groups, room := doubtedGroups(r, careful), acceptanceRoom(r)
	if careful.MaxUnjudgedCount != nil {
		d.Items = doubtedItems(r, room-len(groups))
		d.Unseen, d.More = unseenLines(r)
	}
	d.Groups = firstOf(groups, max(0, room-len(d.Items)))
	counts := acceptedCounts(r)
	for _, g := range d.Groups {
		counts[g.GetKind()] += g.GetRequestCount()
	}
	r.AcceptedDifferences = kindCounts(counts)
	if len(d.Items) > 0 {
		r.AcceptedItemCount = r.ItemCount - r.SeenItemCount
		setUnjudged(r)
	}
	d.Rest = unmetOf(careful, r)
	for _, q := range d.Rest {
		loosen(d.Required, nameOf(q.GetRequirement()), r)
	}
	return d
}

// missingFrom returns the names of the requirements that both a list and the location of a report lack.
func missingFrom(given *adminpb.CommitRequirements, r *adminpb.Report) []string {
	of := proto.CloneOf(r)
	of.Requirements = Judge(given, adminpb.Report_RequirementResult_CALL, r, Committer{})
	for _, q := range r.GetRequirements() {
		if q.GetSource() == adminpb.Report_RequirementResult_LOCATION {
			of.Requirements = append(of.Requirements, q)
		}
	}
	return Missing(of)
}

// strict returns the requirements of these names that a careful reviewer has.
func strict(names []string) *adminpb.CommitRequirements {
	all, out := Default(), &adminpb.CommitRequirements{}
	for _, name := range names {
		switch name {
		case minRequestsName:
			out.MinRequestCount = 1
		case newlyDenied:
			out.MaxNewlyDeniedCount = all.MaxNewlyDeniedCount
		case newlyAllowed:
			out.MaxNewlyAllowedCount = all.MaxNewlyAllowedCount
		case responseChanged:
			out.MaxResponseChangedCount = proto.Int64(0)
		case failed:
			out.MaxFailedCount = all.MaxFailedCount
		case dropped:
			out.MaxDroppedRatio = all.MaxDroppedRatio
		case unjudged:
			out.MaxUnjudgedCount = all.MaxUnjudgedCount
		}
	}
	return out
}

// merged returns one list of requirements of two, which it leaves as they are.
func merged(a, b *adminpb.CommitRequirements) *adminpb.CommitRequirements {
	out := proto.CloneOf(a)
	proto.Merge(out, b)
	return out
}

// unmetOf returns the results of requirements that a report does not meet.
func unmetOf(required *adminpb.CommitRequirements, r *adminpb.Report) []*adminpb.Report_RequirementResult {
	return Unmet(&adminpb.Report{Requirements: Judge(required, adminpb.Report_RequirementResult_CALL, r, Committer{})})
}

// acceptanceRoom is how many acceptances there may still be of the present content.
func acceptanceRoom(r *adminpb.Report) int {
	room := MaxAcceptances
	for _, a := range r.GetAcceptances() {
		if a.GetExperimentEtag() == r.GetExperimentEtag() && a.GetState() != adminpb.Acceptance_REPLACED {
			room--
		}
	}
	return room
}

// doubtedGroups returns the groups of the kinds that are required to be none, and that nobody has
// accepted or expects.
func doubtedGroups(r *adminpb.Report, careful *adminpb.CommitRequirements) (out []*adminpb.Report_Difference) {
	judged := map[adminpb.Report_Kind]bool{
		adminpb.Report_NEWLY_DENIED: careful.MaxNewlyDeniedCount != nil, adminpb.Report_NEWLY_ALLOWED: careful.MaxNewlyAllowedCount != nil,
		adminpb.Report_FAILED: careful.MaxFailedCount != nil, adminpb.Report_RESPONSE_CHANGED: careful.MaxResponseChangedCount != nil,
	}
	for _, d := range r.GetDifferences() {
		if judged[d.GetKind()] && d.GetGroupId() != "" && !IsLeftOut(r, d) {
			out = append(out, d)
		}
	}
	return out
}

// unseenLines returns the lines of a report with items that no request has shown and nobody has accepted, and
// how many such items are in no line.
func unseenLines(r *adminpb.Report) (lines []*adminpb.Report_Item, more int64) {
	more = Unjudged(r)
	for _, item := range r.GetItems() {
		// What stands for the items beyond those that are known one by one has nothing to show.
		if named := item.GetKind() != adminpb.Report_Item_ITEM_KIND_UNSPECIFIED; named && item.GetState() != adminpb.Report_Item_ACCEPTED && !SeenWhole(item) {
			lines = append(lines, item)
			more -= item.GetItemCount() - item.GetSeenCount()
		}
	}
	return lines, max(0, more)
}

// doubtedItems returns the items that no request has shown and nobody has accepted; what stands for
// all of them, if some of those are not listed, or if they are more than there is room for.
func doubtedItems(r *adminpb.Report, room int) (out []*adminpb.Report_Item) {
	left := r.GetItemCount() - r.GetSeenItemCount() - r.GetAcceptedItemCount()
	if left <= 0 {
		return nil
	}
	named := true
	for _, item := range r.GetItems() {
		if item.GetState() != adminpb.Report_Item_ACCEPTED && !SeenWhole(item) {
			out = append(out, item)
			named = named && item.GetItemId() != ""
			left -= item.GetItemCount() - item.GetSeenCount()
		}
	}
	if left > 0 || !named || len(out) > room {
		return []*adminpb.Report_Item{everything(r)}
	}
	return out
}

// loosen takes a requirement by its name out of what is required, or has it allow what there is.
func loosen(r *adminpb.CommitRequirements, name string, of *adminpb.Report) {
	twice := func(kind adminpb.Report_Kind) *int64 {
		most, _, known := measure(of, adminpb.CommitRequirements_PRESENT_PAIR).number(kind)
		if !known {
			return nil // no limit but 0 can be met
		}
		return proto.Int64(2 * most)
	}
	switch name {
	case newlyDenied:
		r.MaxNewlyDeniedCount = twice(adminpb.Report_NEWLY_DENIED)
	case newlyAllowed:
		r.MaxNewlyAllowedCount = twice(adminpb.Report_NEWLY_ALLOWED)
	case responseChanged:
		r.MaxResponseChangedCount = twice(adminpb.Report_RESPONSE_CHANGED)
	case failed:
		r.MaxFailedCount = twice(adminpb.Report_FAILED)
	case dropped:
		r.MaxDroppedRatio = nil
	case unjudged:
		r.MaxUnjudgedCount = nil
	case takenBack:
		r.MaxTakenBackCount = of.TakenBackCount
	}
}
