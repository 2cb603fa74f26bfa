package report_test

import (
	"fmt"
	"strings"
	"testing"

	adminpb "understudy/admin/v1"

	"understudy/admin/report"
	evidencepb "understudy/authz/evidence/v1"
	"understudy/rego/change"
)

// withGroups adds groups of newly allowed requests to what a report is made of, 3 requests each.
func withGroups(in report.Input, n int) report.Input {
	p := in.Evidence.Pairs[0]
	p.Counts.NewlyAllowed = int64(3 * n)
	for i := range n {
		p.Groups = append(p.Groups, &evidencepb.Group{
			Kind: int32(adminpb.Report_NEWLY_ALLOWED), Method: "GET", Pattern: fmt.Sprintf("/g%c%c", 'a'+i/26, 'a'+i%26), Count: 3, Callers: set(1, 2),
		})
	}
	return in
}

// TestDoubts: what somebody accepts who commits all the same is all that the default requirements ask
// for, and what is required then is met by it, but not by twice as much.
func TestDoubts(t *testing.T) {
	few, seen := changeOf(2, 0), []int32{1, 1, 1}
	dropped := itemInput(few, seen...)
	dropped.Evidence.Pairs[0].Counts.Dropped = 5
	for name, test := range map[string]struct {
		in report.Input
		// groups and items are what is accepted, and rest what can only be confirmed.
		groups, items int
		rest          string
		required      string
	}{
		"all is shown":       {in: itemInput(few, seen...), required: "newly-denied=0,newly-allowed=0,response-changed=0,failed=0,dropped<=1%,unjudged=0"},
		"items":              {in: itemInput(few, 1), items: 2, required: "newly-denied=0,newly-allowed=0,response-changed=0,failed=0,dropped<=1%,unjudged=0"},
		"groups":             {in: withGroups(itemInput(few, seen...), 2), groups: 2, required: "newly-denied=0,newly-allowed=0,response-changed=0,failed=0,dropped<=1%,unjudged=0"},
		"both":               {in: withGroups(itemInput(few, 1), 2), groups: 2, items: 2, required: "newly-denied=0,newly-allowed=0,response-changed=0,failed=0,dropped<=1%,unjudged=0"},
		"a table":            {in: itemInput(changeOf(500, 0), 1), items: 1, required: "newly-denied=0,newly-allowed=0,response-changed=0,failed=0,dropped<=1%,unjudged=0"},
		"what is not listed": {in: itemInput(changeOf(20, 7), 1), items: 1, required: "newly-denied=0,newly-allowed=0,response-changed=0,failed=0,dropped<=1%,unjudged=0"},
		"too many groups": {
			in: withGroups(itemInput(few, 1), 60), groups: 49, items: 1, rest: "newly-allowed=0",
			required: "newly-denied=0,newly-allowed<=66,response-changed=0,failed=0,dropped<=1%,unjudged=0",
		},
		"dropped":          {in: dropped, rest: "dropped<=1%", required: "newly-denied=0,newly-allowed=0,response-changed=0,failed=0,unjudged=0"},
		"nothing compared": {in: report.Input{PolicyEtag: "p", ExperimentEtag: "e", Change: few}, items: 3, rest: "dropped<=1%", required: "newly-denied=0,newly-allowed=0,response-changed=0,failed=0,unjudged=0"},
		"change not known": {
			in: report.Input{PolicyEtag: "p", ExperimentEtag: "e", Evidence: itemInput(few).Evidence}, rest: "unjudged=0",
			required: "newly-denied=0,newly-allowed=0,response-changed=0,failed=0,dropped<=1%",
		},
	} {
		d := report.DoubtsOf(accept(test.in, report.AcceptanceContext{}), nil)
		rest := ""
		for _, q := range d.Rest {
			rest += q.Requirement
		}
		if len(d.Groups) != test.groups || len(d.Items) != test.items || rest != test.rest || report.Format(d.Required) != test.required {
			t.Errorf("%s: got %d groups, %d items, the rest %s, and required %s;\nwant %d, %d, %s, %s",
				name, len(d.Groups), len(d.Items), rest, report.Format(d.Required), test.groups, test.items, test.rest, test.required)
		}
		if d.None() != (test.groups+test.items+len(test.rest) == 0) {
			t.Errorf("%s: None is %t", name, d.None())
		}
		var made []*adminpb.Acceptance
		for _, g := range d.Groups {
			made = append(made, &adminpb.Acceptance{
				Name: g.GroupId, Target: &adminpb.Acceptance_GroupId{GroupId: g.GroupId}, ExperimentEtag: "e", PolicyEtag: "p", MaxRequestCount: 6, MaxCallerCount: 2,
			})
		}
		for _, item := range d.Items {
			made = append(made, acceptedItem(item.ItemId, item.ItemId))
		}
		now := report.AcceptanceContext{Seen: report.SeenOf(test.in), Callers: make(map[string][]byte)}
		for _, a := range made {
			now.Callers[a.Name] = set(1, 2)
		}
		r := accept(test.in, now, made...)
		if report.SetResults(r, nil, d.Required, report.Committer{}); !r.RequirementsMet {
			t.Errorf("%s: what is required then is not met: %v", name, report.Unmet(r))
		}
		if again := report.DoubtsOf(r, nil); len(again.Items) > 0 || test.rest == "" && !again.None() {
			t.Errorf("%s: accepted doubts are still there: %v", name, again)
		}
	}
}

// TestDoubtsBesideAList: what a list judges is no doubt, and what decides and it says nothing about is; that is
// required, too, once it was accepted.
func TestDoubtsBesideAList(t *testing.T) {
	few := changeOf(2, 0)
	changed := itemInput(few, 1, 1, 1)
	changed.Evidence.Pairs[0].Counts.AllowedChanged = 3
	changed.Evidence.Pairs[0].Groups = []*evidencepb.Group{{Kind: int32(adminpb.Report_RESPONSE_CHANGED), Method: "GET", Pattern: "/a", Count: 3, Callers: set(1), Changes: []string{"header x-role"}}}
	for name, test := range map[string]struct {
		in             report.Input
		given          string
		groups, items  int
		missing, wants string
	}{
		"all is judged":             {in: withGroups(itemInput(few, 1), 2), given: "newly-allowed<=6,unjudged=0", wants: "newly-allowed<=6,unjudged=0"},
		"no list":                   {in: withGroups(itemInput(few, 1), 2), groups: 2, items: 2, wants: "newly-denied=0,newly-allowed=0,response-changed=0,failed=0,dropped<=1%,unjudged=0"},
		"items are not judged":      {in: withGroups(itemInput(few, 1), 2), given: "newly-allowed<=6", items: 2, missing: "unjudged", wants: "newly-allowed<=6,unjudged=0"},
		"neither is who is let in":  {in: withGroups(itemInput(few, 1), 2), given: "requests>=1,scope=all-pairs", groups: 2, items: 2, missing: "newly-allowed unjudged", wants: "requests>=1,newly-allowed=0,unjudged=0,scope=all-pairs"},
		"responses are not judged":  {in: changed, given: "newly-denied=0", groups: 1, missing: "response-changed", wants: "newly-denied=0,response-changed=0"},
		"responses without a list":  {in: changed, groups: 1, wants: "newly-denied=0,newly-allowed=0,response-changed=0,failed=0,dropped<=1%,unjudged=0"},
		"who commits is not judged": {in: itemInput(few, 1, 1, 1), given: "different-committer", missing: "requests", wants: "requests>=1,different-committer"},
		"a duration is no evidence": {in: itemInput(few, 1, 1, 1), given: "duration>=0s", missing: "requests", wants: "requests>=1,duration>=0s"},
	} {
		given, err := report.Parse(test.given)
		if err != nil && test.given != "" {
			t.Fatal(err)
		}
		d := report.DoubtsOf(accept(test.in, report.AcceptanceContext{}), given)
		if got := strings.Join(d.Missing, " "); len(d.Groups) != test.groups || len(d.Items) != test.items || got != test.missing || report.Format(d.Required) != test.wants {
			t.Errorf("%s: got %d groups, %d items, missing %s, and required %s;\nwant %d, %d, %s, %s",
				name, len(d.Groups), len(d.Items), got, report.Format(d.Required), test.groups, test.items, test.missing, test.wants)
		}
	}
}

// TestDoubtsListTheirItems: whatever acceptances are made of, each line of the report that was not seen is
// among the doubts, and how many items are in none of them.
func TestDoubtsListTheirItems(t *testing.T) {
	rules := func(n, more int) *change.List {
		list := &change.List{Digest: []byte{1}, More: more}
		for i := range n {
			list.Items = append(list.Items, change.Item{ID: fmt.Sprintf("%020x", i), Kind: change.Rule, Side: change.Candidate, File: "a.rego", Line: i, Rule: "data.a.allow", Candidate: "allow if true"})
		}
		return list
	}
	for name, test := range map[string]struct {
		list         *change.List
		items, lines int
		more         int64
	}{
		"one by one":                      {rules(40, 0), 39, 39, 0},
		"more than there are acceptances": {rules(60, 0), 1, 59, 0},
		"more than a report lists":        {rules(91, 0), 1, 64, 26},
		"more than are known one by one":  {rules(91, 10), 1, 63, 37},
		"a table":                         {changeOf(500, 0), 1, 1, 0},
	} {
		d := report.DoubtsOf(accept(itemInput(test.list, 1), report.AcceptanceContext{}), nil)
		if len(d.Items) != test.items || len(d.Unseen) != test.lines || d.More != test.more {
			t.Errorf("%s: %d acceptances, %d lines and %d more; want %d, %d, %d", name, len(d.Items), len(d.Unseen), d.More, test.items, test.lines, test.more)
		}
	}
}

// TestDefaultRequirements are read back as they are written.
func TestDefaultRequirements(t *testing.T) {
	if got, want := report.Format(report.Default()), "newly-denied=0,newly-allowed=0,response-changed=0,failed=0,dropped<=1%,unjudged=0"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestDefaultTerm: terms of one's own take the place of those of the default that have the same name.
func TestDefaultTerm(t *testing.T) {
	for text, want := range map[string]string{
		"default":                   "requests>=1000,newly-denied=0,newly-allowed=0,response-changed=0,failed=0,dropped<=1%,unjudged=0",
		"default,requests >= 20000": "requests>=20000,newly-denied=0,newly-allowed=0,response-changed=0,failed=0,dropped<=1%,unjudged=0",
		"newly-denied<=1%, default, callers>=5": "requests>=1000,callers>=5,newly-denied<=1%,newly-allowed=0,response-changed=0,failed=0," +
			"dropped<=1%,unjudged=0",
	} {
		r, err := report.Parse(text)
		if got := report.Format(r); err != nil || got != want {
			t.Errorf("%q: got %s, %v, want %s", text, got, err, want)
		}
	}
	for _, wrong := range []string{"default,default", "default=1", "default,requests>=1,requests>=2"} {
		if _, err := report.Parse(wrong); err == nil {
			t.Errorf("%q has no error", wrong)
		}
	}
}
