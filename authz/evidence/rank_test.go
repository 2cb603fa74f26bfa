package evidence

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	adminpb "understudy/admin/v1"
)

// rankedGroups are groups of a test, by ID.
type rankedGroups map[int]ranked

// add adds groups of a kind, each of so many callers and requests.
func (g rankedGroups) add(n int, k kind, count int64, hashes ...uint32) {
	for range n {
		var c callers
		for _, hash := range hashes {
			c.add(hash)
		}
		g[len(g)] = ranked{k, &c, count}
	}
}

// first returns the IDs of the first groups, and how many there are of each kind.
func (g rankedGroups) first(n int) ([]int, map[kind]int) {
	ids := rank(slices.Collect(maps.Keys(g)), func(id int) ranked { return g[id] }, cmp.Compare[int])
	of := make(map[kind]int)
	for _, id := range ids[:n] {
		of[g[id].kind]++
	}
	return ids[:n], of
}

// TestGroupsAreRankedByKind: each kind has its places, and the others have what it does not need.
func TestGroupsAreRankedByKind(t *testing.T) {
	all := make(rankedGroups)
	for k, n := range map[kind]int{
		adminpb.Report_NEWLY_DENIED: 300, adminpb.Report_NEWLY_ALLOWED: 300, adminpb.Report_RESPONSE_CHANGED: 300,
		adminpb.Report_FAILED: 300, adminpb.Report_LIVE_FAILED: 300,
	} {
		all.add(n, k, 5, 1)
	}
	for n, want := range map[int]map[kind]int{
		200: {
			adminpb.Report_NEWLY_ALLOWED: 80, adminpb.Report_NEWLY_DENIED: 60, adminpb.Report_RESPONSE_CHANGED: 20,
			adminpb.Report_FAILED: 20, adminpb.Report_LIVE_FAILED: 20,
		},
		// Anyone who cuts more off keeps the shares.
		20: {
			adminpb.Report_NEWLY_ALLOWED: 8, adminpb.Report_NEWLY_DENIED: 6, adminpb.Report_RESPONSE_CHANGED: 2,
			adminpb.Report_FAILED: 2, adminpb.Report_LIVE_FAILED: 2,
		},
	} {
		if _, got := all.first(n); !maps.Equal(got, want) {
			t.Errorf("of %d groups there are %v, want %v", n, got, want)
		}
	}
	few := make(rankedGroups)
	few.add(3, adminpb.Report_NEWLY_ALLOWED, 1, 1)
	few.add(300, adminpb.Report_RESPONSE_CHANGED, 9, 2, 3)
	if _, got := few.first(200); got[adminpb.Report_NEWLY_ALLOWED] != 3 || got[adminpb.Report_RESPONSE_CHANGED] != 197 {
		t.Errorf("of 200 groups there are %v, want all 3 newly allowed and the rest of the other kind", got)
	}
}

// TestARareGroupOutranksThoseOfOneStranger: however many groups one caller makes, with however many
// requests, a group of somebody else comes first.
func TestARareGroupOutranksThoseOfOneStranger(t *testing.T) {
	for name, stranger := range map[string][]uint32{"without a name": nil, "with a name": {7}, "with some names": {7, 8, 9}} {
		all := make(rankedGroups)
		all.add(201, adminpb.Report_NEWLY_ALLOWED, 1000, stranger...)
		all.add(1, adminpb.Report_NEWLY_ALLOWED, 1, 1)
		all.add(1, adminpb.Report_NEWLY_ALLOWED, 2, 1, 2)
		ids, _ := all.first(2)
		if ids[0] != 202 || ids[1] != 201 {
			t.Errorf("of a stranger %s and two others, the first are %v, want the others", name, ids)
		}
	}
}

// TestMoreCallersRankFirst: of groups whose callers are in no other, and of callers that are
// only estimated.
func TestMoreCallersRankFirst(t *testing.T) {
	all := make(rankedGroups)
	all.add(1, adminpb.Report_NEWLY_DENIED, 900, 1)
	all.add(1, adminpb.Report_NEWLY_DENIED, 5, 2, 3, 4)
	many := make([]uint32, 100)
	for i := range many {
		many[i] = uint32(i+100) * 0x9E3779B9
	}
	all.add(1, adminpb.Report_NEWLY_DENIED, 200, many...)
	if ids, _ := all.first(3); !slices.Equal(ids, []int{2, 1, 0}) {
		t.Errorf("the groups are %v, want those of most callers first", ids)
	}
}
