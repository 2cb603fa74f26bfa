package report

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
)

// groupIDSize is the size of a group's ID, in bytes: nobody makes a path whose group has the ID
// of another one.
const groupIDSize = 10

// GroupID returns what an acceptance names a group by: a hash of all that makes it that group.
// A path pattern that became wider is another one, so that an acceptance never covers more
// than what was looked at.
func GroupID(d *adminpb.Report_Difference) string {
	h := sha256.New()
	part := func(text string) {
		h.Write(binary.AppendUvarint(nil, uint64(len(text))))
		h.Write([]byte(text))
	}
	for _, text := range []string{d.GetKind().String(), d.GetMethod(), d.GetPath(), d.GetRule(), d.GetReason()} {
		part(text)
	}
	part(fmt.Sprint(d.GetPolicyStatus()))
	part(fmt.Sprint(d.GetExperimentStatus()))
	for _, change := range d.GetChanges() {
		part(change)
	}
	return hex.EncodeToString(h.Sum(nil)[:groupIDSize])
}

// ShortID is the part of a group's ID that people read and type. A prefix of an ID is enough
// wherever it fits one group.
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

// Standing is what acceptances are held against, beside the report.
type Standing struct {
	// RulesEtag names the rules that are live now.
	RulesEtag string
	// FourEyes says that whoever accepts has never set the experiment's policy, as whoever
	// commits it. Editors are all who have; empty if somebody is not known.
	FourEyes bool
	Editors  []string
	// Seen :: ID of a group → what was seen of it.
	Seen map[string]Seen
	// Callers :: name of an acceptance → the stored set of callers that it was made for.
	Callers map[string][]byte
}

// SetAcceptances writes the acceptances of an experiment into its report, each with what has
// become of it, and marks the differences that were accepted. It modifies both.
func SetAcceptances(r *adminpb.Report, acceptances []*adminpb.Acceptance, now Standing) {
	r.Acceptances = acceptances
	for _, d := range r.GetDifferences() {
		d.Acceptance = ""
	}
	for _, a := range acceptances {
		d := GroupOf(r, a.GetGroupId())
		seen := now.Seen[a.GetGroupId()]
		a.RequestCount, a.CallerCount = seen.RequestCount, seen.callersWith(now.Callers[a.Name], a.GetMaxCallerCount())
		a.State, a.StateReason = stateOf(a, r, d, now)
		if d != nil && a.State != adminpb.Acceptance_REPLACED && outranks(a, AcceptanceOf(r, d)) {
			d.Acceptance = a.Name
		}
	}
	r.AcceptedDifferences = kindCounts(acceptedCounts(r))
}

// stateOf is what has become of an acceptance, whose group is d; nil if the report has none.
func stateOf(
	a *adminpb.Acceptance, r *adminpb.Report, d *adminpb.Report_Difference, now Standing,
) (state adminpb.Acceptance_State, why string) {
	switch {
	case a.GetState() == adminpb.Acceptance_REPLACED:
		return adminpb.Acceptance_REPLACED, "the group was accepted again"
	case a.GetExperimentEtag() != r.GetExperimentEtag():
		return adminpb.Acceptance_VOID, "the experiment has changed since"
	case a.GetPolicyEtag() != r.GetPolicyEtag() && a.GetRulesEtag() != now.RulesEtag:
		return adminpb.Acceptance_VOID, "the rules of the live policy have changed since"
	case now.FourEyes && len(now.Editors) == 0:
		return adminpb.Acceptance_VOID, "it is not known who has set the policy of the experiment"
	case now.FourEyes && (a.GetCreator() == "" || slices.Contains(now.Editors, a.GetCreator())):
		return adminpb.Acceptance_VOID, "whoever accepts must not have set the policy of the experiment"
	case d == nil:
		return adminpb.Acceptance_VOID, "the report has no such group: it has no requests yet, or its path was folded with others"
	case a.GetRequestCount() > a.GetMaxRequestCount():
		return adminpb.Acceptance_EXCEEDED, Number(a.GetRequestCount()) + " requests, accepted were " + Number(a.GetMaxRequestCount())
	case a.GetCallerCount() > a.GetMaxCallerCount():
		return adminpb.Acceptance_EXCEEDED, Number(a.GetCallerCount()) + " callers, accepted were " + Number(a.GetMaxCallerCount())
	}
	if c := otherCause(a.GetDifference().GetCauses(), d.GetCauses()); c != nil {
		return adminpb.Acceptance_EXCEEDED, fmt.Sprintf("for another cause: %s:%d %s", c.GetFile(), c.GetLine(), c.GetText())
	}
	return adminpb.Acceptance_IN_FORCE, ""
}

// otherCause returns a cause of now, if causes were known before and none of them is one of now.
func otherCause(known, now []*adminpb.Report_Expression) *adminpb.Report_Expression {
	if len(known) == 0 || len(now) == 0 {
		return nil
	}
	for _, c := range now {
		if slices.ContainsFunc(known, func(k *adminpb.Report_Expression) bool { return proto.Equal(k, c) }) {
			return nil
		}
	}
	return now[0]
}

// outranks reports whether an acceptance says more of its group than another one, which may be
// nil: one that is in force, or else the later one.
func outranks(a, other *adminpb.Acceptance) bool {
	if other == nil || (a.State == adminpb.Acceptance_IN_FORCE) != (other.State == adminpb.Acceptance_IN_FORCE) {
		return other == nil || a.State == adminpb.Acceptance_IN_FORCE
	}
	return a.GetCreateTime().AsTime().After(other.GetCreateTime().AsTime())
}

// AcceptanceOf returns the acceptance that a report names for one of its differences; nil if
// there is none.
func AcceptanceOf(r *adminpb.Report, d *adminpb.Report_Difference) *adminpb.Acceptance {
	for _, a := range r.GetAcceptances() {
		if a.GetName() == d.GetAcceptance() {
			return a
		}
	}
	return nil
}

// acceptedCounts returns how many requests of each kind are in groups whose acceptance is in
// force: they count against no requirement. They are requests of the present pair, also where
// requirements are about all pairs.
func acceptedCounts(r *adminpb.Report) map[adminpb.Report_Kind]int64 {
	counts := make(map[adminpb.Report_Kind]int64)
	for _, d := range r.GetDifferences() {
		if AcceptanceOf(r, d).GetState() == adminpb.Acceptance_IN_FORCE {
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
	r.Acceptances = slices.DeleteFunc(r.GetAcceptances(), func(a *adminpb.Acceptance) bool { return !used[a.GetName()] })
}
