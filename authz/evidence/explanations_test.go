package evidence_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"understudy/authz"
	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
)

// explaining is a tally of which a test explains the differences.
type explaining struct {
	*evidence.Tally
	// asked are the reasons whose causes were asked for, by the first number; 0 for a request without reasons.
	asked []uint64
	last  evidence.Unexplained
}

// request counts a request for reasons; none if they are 0.
func (e *explaining) request(why uint64) (explain bool) {
	c := comparison(e.Tally, request{method: "GET", path: "/orders", principal: fmt.Sprint("p", why), live: allowed, experiment: denied})
	c.Reasons = evidence.Reasons{why, why}
	ask, explain := e.Count("live", c)
	if explain {
		e.asked, e.last = append(e.asked, why), ask
	}
	return explain
}

// found says that the causes that were asked for last are at a line; 0 for no causes.
func (e *explaining) found(line int32) {
	var causes []*evidencepb.Cause
	if line != 0 {
		causes = []*evidencepb.Cause{{File: "a.rego", Line: line, Text: "x"}}
	}
	e.Explain("live", e.last, evidence.Found, causes)
}

// groups are those of a snapshot: by line of the cause, how many requests; -1 if there is no cause, and 0 if it is not known.
func (e *explaining) groups(t *testing.T) map[int32]int64 {
	t.Helper()
	snapshot := e.Snapshot(begun)
	checkSums(t, snapshot)
	out := make(map[int32]int64)
	for _, g := range snapshot.GetPairs()[0].GetGroups() {
		line := int32(0)
		switch {
		case len(g.GetCauses()) > 0:
			line = g.GetCauses()[0].GetLine()
		case evidence.CauseOf(g) != "":
			line = -1
		}
		if out[line] != 0 {
			t.Errorf("two groups have the cause of line %d", line)
		}
		out[line] = g.GetCount()
	}
	return out
}

func (e *explaining) want(t *testing.T, when string, want map[int32]int64) {
	t.Helper()
	if d := cmp.Diff(want, e.groups(t)); d != "" {
		t.Errorf("%s: requests by the line of their cause (-want +got):\n%s", when, d)
	}
}

// TestRequestsAreGroupedByCause: requests for the same reasons have the causes that were found for one of them, also
// those that were counted before.
func TestRequestsAreGroupedByCause(t *testing.T) {
	e := &explaining{Tally: newTally()}
	for range 3 {
		e.request(7)
	}
	e.want(t, "before the causes are found", map[int32]int64{0: 3})
	e.found(1)
	e.request(7)
	e.want(t, "after", map[int32]int64{1: 4})
	e.request(8)
	e.want(t, "with other reasons", map[int32]int64{0: 1, 1: 4})
	e.found(2)
	e.want(t, "that have another cause", map[int32]int64{1: 4, 2: 1})
	e.request(9)
	e.found(1)
	e.want(t, "or the same one", map[int32]int64{1: 5, 2: 1})
	e.request(10)
	e.found(0)
	e.want(t, "or none", map[int32]int64{1: 5, 2: 1, -1: 1})
	if d := cmp.Diff([]uint64{7, 8, 9, 10}, e.asked); d != "" {
		t.Errorf("the causes were asked for (-want +got):\n%s", d)
	}
	sum := evidence.NewSum(e.Content(), nil)
	for range 2 {
		sum.Add(e.Snapshot(begun))
	}
	if groups := sum.Evidence().GetPairs()[0].GetGroups(); len(groups) != 3 || groups[0].GetCount() != 10 {
		t.Errorf("the sum has %v, want three groups, the first one of 10 requests", groups)
	}
}

// TestPlacesOfDataAreOfOnePathAndCaller: requests for the same reasons may need other places of data, so the cause that
// was found for one is not that of others with another path or caller; the entries of a table are one cause.
func TestPlacesOfDataAreOfOnePathAndCaller(t *testing.T) {
	for text, want := range map[string]map[string]int64{
		`data.grants.ann: + "7"`: {`data.grants.ann: + "7"`: 4, "other": 4}, "entries of data.users": {"entries of data.users": 8},
	} {
		tally := newTally()
		path := func(path string) (evidence.Unexplained, bool) {
			return count(tally, "live", request{method: "GET", path: path, principal: "ann", live: allowed, experiment: denied})
		}
		first, _ := path("/records/7")
		if _, again := path("/records/666"); again {
			t.Error("causes that are looked for are asked for again")
		}
		tally.Explain("live", first, evidence.Found, []*evidencepb.Cause{{File: "a.rego", Line: 3}, {Text: text}})
		for range 3 {
			path("/records/7")
		}
		for range 3 {
			if ask, explain := path("/records/666"); explain {
				tally.Explain("live", ask, evidence.Found, []*evidencepb.Cause{{File: "a.rego", Line: 3}, {Text: "other"}})
			}
		}
		got := make(map[string]int64)
		e := tally.Snapshot(begun)
		checkSums(t, e)
		for _, g := range e.GetPairs()[0].GetGroups() {
			name := ""
			if causes := g.GetCauses(); len(causes) > 0 {
				name = causes[1].GetText()
			}
			got[name] += g.GetCount()
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: requests by cause (-want +got):\n%s", text, d)
		}
	}
}

// TestCausesThatAreNotFoundAreAskedForAgain: with the next request if there was no time, and when there are twice as
// many if it has failed.
func TestCausesThatAreNotFoundAreAskedForAgain(t *testing.T) {
	for result, want := range map[evidence.ExplainResult][]int{evidence.Busy: {1, 2, 3, 4, 5, 6, 7, 8, 9}, evidence.Failed: {1, 2, 4, 8}} {
		e := &explaining{Tally: newTally()}
		var asked []int
		for i := 1; i < 10; i++ {
			if e.request(7) {
				asked = append(asked, i)
				e.Explain("live", e.last, result, nil)
			}
		}
		if !slices.Equal(asked, want) {
			t.Errorf("result %v: asked for at the requests %v, want %v", result, asked, want)
		}
		e.found(3)
		e.want(t, "when they are found at last", map[int32]int64{3: 9})
	}
}

// TestRequestsWithoutReasonsAreSampled: each may have a cause of its own, so the causes of most are not known.
func TestRequestsWithoutReasonsAreSampled(t *testing.T) {
	e := &explaining{Tally: newTally()}
	for i := 1; i <= 100; i++ {
		if e.request(0) {
			e.found(1)
		}
	}
	e.want(t, "of 100 requests", map[int32]int64{1: 8, 0: 92}) // 1, 2, 3, 4, 8, 16, 32 and 64
	if e.request(0); len(e.asked) != 8 {
		t.Errorf("%d were asked for, want 8", len(e.asked))
	}
	for i := 102; i <= 128; i++ {
		e.request(0)
	}
	e.Explain("live", e.last, evidence.Busy, nil)
	e.want(t, "when there was no time for the 128th", map[int32]int64{1: 8, 0: 120})
}

// TestCausesAreBounded: what is beyond has an unknown cause, and is in no group that has a known one.
func TestCausesAreBounded(t *testing.T) {
	e := &explaining{Tally: newTally()}
	for why := range uint64(100) { // whose causes nobody finds
		e.request(1 + why)
	}
	if len(e.asked) != 64 {
		t.Errorf("%d causes are looked for at a time, want 64", len(e.asked))
	}
	e.want(t, "of 100 reasons", map[int32]int64{0: 100})

	e = &explaining{Tally: newTally()}
	for why := range uint64(200) { // for which there is no time, and no second request
		if e.request(1 + why) {
			e.Explain("live", e.last, evidence.Busy, nil)
		}
	}
	if e.request(1000); len(e.asked) != 201 {
		t.Errorf("%d causes are looked for, want 201: those for which there was no time make room", len(e.asked))
	}
	e.found(5)
	e.want(t, "of 201 reasons", map[int32]int64{0: 200, 5: 1})

	e = &explaining{Tally: newTally()}
	for why := range uint64(3000) {
		if e.request(1 + why) {
			e.found(int32(1 + why%40))
		}
	}
	groups := e.groups(t)
	if len(groups) != 17 || len(e.asked) != 2048 {
		t.Errorf("there are %d groups, and %d causes were asked for; want 16 known causes and the unknown one, and 2048", len(groups), len(e.asked))
	}
	for line, n := range groups {
		if line != 0 && (line > 16 || n > 52) {
			t.Errorf("line %d is the cause of %d requests, want at most 52 and the first 16 lines", line, n)
		}
	}
}

// TestFoldedGroupsKeepTheirCauses: requests whose causes are looked for are not lost when their path loses its name,
// and an answer that comes later changes nothing.
func TestFoldedGroupsKeepTheirCauses(t *testing.T) {
	tally := newTally()
	e := &explaining{Tally: tally}
	e.request(7)
	late := e.last
	for i := range 3000 { // more names than there are
		explained(tally, "live", request{method: "GET", path: fmt.Sprintf("/w%d/x", i), live: allowed, experiment: denied}, &evidencepb.Cause{File: "a.rego", Line: 9})
	}
	snapshot := tally.Snapshot(begun)
	checkSums(t, snapshot)
	tally.Explain("live", late, evidence.Found, []*evidencepb.Cause{{File: "a.rego", Line: 1}})
	snapshot = tally.Snapshot(begun)
	checkSums(t, snapshot)
	checkSize(t, snapshot, evidence.MaxRecord)
}

// TestExplainedPath: what no rule of Rego has decided alone is not explained by one.
func TestExplainedPath(t *testing.T) {
	live, experiment := denied.WithRulePath("live"), allowed.WithRulePath("experiment")
	for _, c := range []struct {
		difference authz.Difference
		experiment authz.Decision
		rules      int
		want       string
	}{
		{authz.NewlyAllowed, experiment, 2, "live"}, {authz.NewlyDenied, denied.WithRulePath("experiment"), 2, "experiment"},
		{authz.ResponseChanged, experiment, 1, "experiment"}, {authz.ResponseChanged, experiment, 2, ""},
		{authz.ResponseChanged, denied.WithRulePath("experiment"), 2, "experiment"},
		{authz.ExperimentFailed, authz.Failed(authz.FailureUndefined, "").WithRulePath("experiment"), 1, "experiment"},
		{authz.ExperimentFailed, authz.Failed(authz.FailureDeadline, "").WithRulePath("experiment"), 1, ""},
	} {
		if got := evidence.ExplainedPath(c.difference, live, c.experiment, c.rules); got != c.want {
			t.Errorf("difference %v of %d rules: got %q, want %q", c.difference, c.rules, got, c.want)
		}
	}
}
