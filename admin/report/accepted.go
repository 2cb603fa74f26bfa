package report

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	adminpb "understudy/admin/v1"
	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
	"understudy/rego/change"
)

// idSize is the size of an ID, in bytes: nobody makes a path whose group has the ID of another one.
const idSize = 10

// GroupID returns what an acceptance names a group by: a hash of all that makes it that group.
// A path pattern that became wider is another one, and so are requests with other causes: an acceptance never covers
// more than what was looked at.
func GroupID(g *evidencepb.Group) string {
	d := identity(g)
	parts := []string{
		d.GetKind().String(), d.GetMethod(), d.GetPath(), d.GetRule(), d.GetReason(),
		fmt.Sprint(d.GetPolicyStatus()), fmt.Sprint(d.GetExperimentStatus()),
	}
	if n := d.GetExpectation(); n != 0 {
		parts = append(parts, "expectation "+strconv.Itoa(int(n)))
	}
	if !d.GetCauseUnknown() {
		parts = append(parts, "cause "+hex.EncodeToString([]byte(evidence.CauseOf(g))))
	}
	return idOf(append(parts, d.GetChanges()...)...)
}

// idOf returns the ID of what all these texts make.
func idOf(parts ...string) string {
	h := sha256.New()
	for _, text := range parts {
		h.Write(binary.AppendUvarint(nil, uint64(len(text))))
		h.Write([]byte(text))
	}
	return hex.EncodeToString(h.Sum(nil)[:idSize])
}

// ShortID is the part of the ID of a group or an item that people read and type. A prefix of an ID is enough
// wherever it fits one of them.
func ShortID(id string) string { return id[:min(8, len(id))] }

// GroupOf returns the difference of a report with the ID of its group; nil if there is none.
func GroupOf(r *adminpb.Report, id string) *adminpb.Report_Difference {
	for _, d := range r.GetDifferences() {
		if id != "" && d.GetGroupId() == id {
			return d
		}
	}
	return nil
}

// itemsNamed returns the items of a report that an ID names: one, those of a table, or all.
func itemsNamed(r *adminpb.Report, tables map[string]table, id string) (items []*adminpb.Report_Item) {
	if id == "" {
		return nil
	}
	if id == r.GetChangeId() {
		return r.GetItems()
	}
	for _, item := range r.GetItems() {
		if id == item.GetItemId() || id == tables[item.GetItemId()].id {
			items = append(items, item)
		}
	}
	return items
}

// ItemOf returns what stands for the items of a report that an ID names: one, those of a table, or all;
// nil if there are none. The report still has all items, of the list that [Build] got; nil is none.
func ItemOf(r *adminpb.Report, list *change.List, id string) *adminpb.Report_Item {
	tables := tablesOf(list)
	items := itemsNamed(r, tables, id)
	switch {
	case len(items) == 0:
		return nil
	case id == r.GetChangeId():
		return everything(r)
	case id == items[0].GetItemId():
		return items[0]
	default:
		return lineOf(tables[items[0].GetItemId()], items)
	}
}

// everything stands for all items of a report.
func everything(r *adminpb.Report) *adminpb.Report_Item {
	return &adminpb.Report_Item{
		ItemId: r.GetChangeId(), State: adminpb.Report_Item_UNSEEN, ItemCount: r.GetItemCount(), SeenCount: r.GetSeenItemCount(),
	}
}

// AcceptanceContext is what acceptances are held against, next to the report.
type AcceptanceContext struct {
	// RulesEtag names the rules that are live now.
	RulesEtag string
	// FourEyes says that anyone who accepts has never set the experiment's policy, as anyone who
	// commits it. Editors are all who have; empty if somebody is not known.
	FourEyes bool
	Editors  []string
	// Seen :: ID of a group → what was seen of it.
	Seen map[string]Seen
	// Callers :: name of an acceptance → the stored set of callers that it was made for.
	Callers map[string][]byte
	// Change is that of [Input].
	Change *change.List
}

// SetAcceptances writes the acceptances of an experiment into its report, which still has all
// items, each with what has become of it, and marks the differences and the items that were
// accepted. It modifies both.
func SetAcceptances(r *adminpb.Report, acceptances []*adminpb.Acceptance, now AcceptanceContext) {
	r.Acceptances = acceptances
	for _, d := range r.GetDifferences() {
		d.Acceptance = ""
	}
	for _, item := range r.GetItems() {
		item.Acceptance = ""
	}
	tables := tablesOf(now.Change)
	for _, a := range acceptances {
		if a.GetItemId() != "" {
			acceptItems(r, a, itemsNamed(r, tables, a.GetItemId()), now)
			continue
		}
		d := GroupOf(r, a.GetGroupId())
		seen := now.Seen[a.GetGroupId()]
		a.RequestCount, a.CallerCount = seen.RequestCount, seen.callersWith(now.Callers[a.Name], a.GetMaxCallerCount())
		a.State, a.StateReason = groupState(a, r, d, now)
		if d != nil && a.State != adminpb.Acceptance_REPLACED && outranks(a, AcceptanceOf(r, d)) {
			d.Acceptance = a.Name
		}
	}
	r.AcceptedDifferences = kindCounts(acceptedCounts(r))
	countAccepted(r)
}

// acceptItems writes what has become of the acceptance of items, and marks them.
func acceptItems(r *adminpb.Report, a *adminpb.Acceptance, items []*adminpb.Report_Item, now AcceptanceContext) {
	a.State, a.StateReason = standingOf(a, r, now)
	switch {
	case a.State != adminpb.Acceptance_IN_FORCE:
	case now.Change == nil:
		a.State, a.StateReason = adminpb.Acceptance_STATE_UNSPECIFIED, "it is not known in what the policies differ"
	case len(items) == 0:
		a.State, a.StateReason = adminpb.Acceptance_VOID, "the policies differ in something else now"
	}
	for _, item := range items {
		if a.State != adminpb.Acceptance_REPLACED && outranks(a, AcceptanceOf(r, item)) {
			item.Acceptance = a.Name
		}
	}
}

// countAccepted counts the items that were accepted and not seen.
func countAccepted(r *adminpb.Report) {
	r.AcceptedItemCount = 0
	for _, item := range r.GetItems() {
		if item.GetState() != adminpb.Report_Item_SEEN && AcceptanceOf(r, item).GetState() == adminpb.Acceptance_IN_FORCE {
			item.State = adminpb.Report_Item_ACCEPTED
			r.AcceptedItemCount++
		}
	}
	r.AcceptedItemCount += acceptedBeyond(r, int(r.GetItemCount())-len(r.GetItems()))
	if r.UnjudgedItemCount != nil {
		setUnjudged(r)
	}
}

// acceptedBeyond is how many of the items beyond those of the list were accepted: all, with all others,
// or none.
func acceptedBeyond(r *adminpb.Report, more int) int64 {
	for _, a := range r.GetAcceptances() {
		if a.GetState() == adminpb.Acceptance_IN_FORCE && a.GetItemId() != "" && a.GetItemId() == r.GetChangeId() {
			return int64(more)
		}
	}
	return 0
}

// standingOf is what has become of an acceptance, as far as it does not depend on what was accepted.
func standingOf(a *adminpb.Acceptance, r *adminpb.Report, now AcceptanceContext) (state adminpb.Acceptance_State, why string) {
	switch {
	case a.GetState() == adminpb.Acceptance_REPLACED:
		return adminpb.Acceptance_REPLACED, "it was accepted again"
	case a.GetExperimentEtag() != r.GetExperimentEtag():
		return adminpb.Acceptance_VOID, "the experiment has changed since"
	case a.GetPolicyEtag() != r.GetPolicyEtag() && a.GetRulesEtag() != now.RulesEtag:
		return adminpb.Acceptance_VOID, "the rules of the live policy have changed since"
	case now.FourEyes && len(now.Editors) == 0:
		return adminpb.Acceptance_VOID, "it is not known who has set the policy of the experiment"
	case now.FourEyes && (a.GetCreator() == "" || slices.Contains(now.Editors, a.GetCreator())):
		return adminpb.Acceptance_VOID, "the principal who accepts must not have set the policy of the experiment"
	default:
		return adminpb.Acceptance_IN_FORCE, ""
	}
}

// groupState is what has become of the acceptance of a group, which is d; nil if the report has
// none.
func groupState(
	a *adminpb.Acceptance, r *adminpb.Report, d *adminpb.Report_Difference, now AcceptanceContext,
) (state adminpb.Acceptance_State, why string) {
	if state, why = standingOf(a, r, now); state != adminpb.Acceptance_IN_FORCE {
		return state, why
	}
	switch {
	case d == nil:
		return adminpb.Acceptance_VOID, "the report has no such group: it has no requests yet, its path was folded with others, or their causes were found since"
	case a.GetRequestCount() > a.GetMaxRequestCount():
		return adminpb.Acceptance_EXCEEDED, Number(a.GetRequestCount()) + " requests, accepted were " + Number(a.GetMaxRequestCount())
	case a.GetCallerCount() > a.GetMaxCallerCount():
		return adminpb.Acceptance_EXCEEDED, Number(a.GetCallerCount()) + " callers, accepted were " + Number(a.GetMaxCallerCount())
	}
	return adminpb.Acceptance_IN_FORCE, ""
}

// outranks reports whether an acceptance says more of what was accepted than another one, which may be
// nil: one that is in force, or else the later one.
func outranks(a, other *adminpb.Acceptance) bool {
	if other == nil || (a.State == adminpb.Acceptance_IN_FORCE) != (other.State == adminpb.Acceptance_IN_FORCE) {
		return other == nil || a.State == adminpb.Acceptance_IN_FORCE
	}
	return a.GetCreateTime().AsTime().After(other.GetCreateTime().AsTime())
}

// AcceptanceOf returns the acceptance that a report names for one of its differences or items; nil
// if there is none.
func AcceptanceOf(r *adminpb.Report, of interface{ GetAcceptance() string }) *adminpb.Acceptance {
	for _, a := range r.GetAcceptances() {
		if a.GetName() == of.GetAcceptance() {
			return a
		}
	}
	return nil
}

// acceptedCounts returns how many requests of each kind are in groups whose acceptance is in
// force: they count against no requirement. Those that are expected are none of them. They are requests of the present pair, also where
// requirements are about all pairs.
func acceptedCounts(r *adminpb.Report) map[adminpb.Report_Kind]int64 {
	counts := make(map[adminpb.Report_Kind]int64)
	for _, d := range r.GetDifferences() {
		if AcceptanceOf(r, d).GetState() == adminpb.Acceptance_IN_FORCE && !IsExpected(r, d) {
			counts[d.GetKind()] += d.GetRequestCount()
		}
	}
	return counts
}

// KeepUsed leaves in a report those acceptances alone that it was judged by.
func KeepUsed(r *adminpb.Report) {
	used := make(map[string]bool)
	for _, d := range r.GetDifferences() {
		if a := AcceptanceOf(r, d); a.GetState() == adminpb.Acceptance_IN_FORCE {
			used[a.GetName()] = true
		} else {
			d.Acceptance = ""
		}
	}
	for _, a := range r.GetAcceptances() {
		if a.GetItemId() != "" && a.GetState() == adminpb.Acceptance_IN_FORCE && !seenMeanwhile(r, a) {
			used[a.GetName()] = true // also if there was no room to list the item
		}
	}
	for _, item := range r.GetItems() {
		if !used[item.GetAcceptance()] {
			item.Acceptance = ""
		}
	}
	r.Acceptances = slices.DeleteFunc(r.GetAcceptances(), func(a *adminpb.Acceptance) bool { return !used[a.GetName()] })
}

// seenMeanwhile reports whether requests have shown the item that was accepted, so that a report was not
// judged by that.
func seenMeanwhile(r *adminpb.Report, a *adminpb.Acceptance) bool {
	i := slices.IndexFunc(r.GetItems(), func(item *adminpb.Report_Item) bool { return item.GetItemId() == a.GetItemId() })
	return i >= 0 && SeenWhole(r.GetItems()[i])
}

// SeenWhole reports whether requests have shown all that an item stands for.
func SeenWhole(item *adminpb.Report_Item) bool { return item.GetSeenCount() >= item.GetItemCount() }
