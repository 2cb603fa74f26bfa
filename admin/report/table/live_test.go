package table_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	adminpb "understudy/admin/v1"

	"understudy/admin/report"
	"understudy/authz"
	evidencepb "understudy/authz/evidence/v1"
	"understudy/authz/extauthz/servertest"
	"understudy/authz/rehearsal/rehearsaltest"
	"understudy/authz/sidecar"
	"understudy/cmd/testkit"
)

// rehearsed are the rows of which TestLive does what TestTable does by replay.
var rehearsed = []string{"11-data-role-grant", "18-hour-literal", "45-renamed-helper", "72-without-default"}

// TestLive: a sidecar that rehearses the candidate comes to the same as a replay.
func TestLive(t *testing.T) {
	for _, name := range rehearsed {
		for _, traffic := range []string{meets, never} {
			t.Run(name+" "+traffic, func(t *testing.T) {
				t.Parallel()
				r := readRow(t, "testdata/"+name+".txtar")
				list, err := authz.Items(t.Context(), r.live.message(t), r.candidate.message(t))
				if err != nil {
					t.Fatal(err)
				}
				feed := r.rehearse(t, r.requests(traffic))
				var problems []string
				var pending int64
				testkit.Await(t, "a report that is right", func() bool {
					made := reportOf(t, feed.sum(t, testkit.Receive(t, "evidence", feed.published)), list)
					problems, pending = r.wrongReport(traffic, made, list), made.PendingRequestCount
					return len(problems) == 0 && pending == 0
				}, func() any { return fmt.Sprintf("%d requests pending, %q", pending, problems) })
			})
		}
	}
}

// rehearse has a sidecar decide requests by the live policy next to the candidate.
func (r *row) rehearse(t *testing.T, requests []*request) *publishing {
	t.Helper()
	const location = authz.Location("projects/default/locations/test")
	name := location.Policy("shop")
	policy := r.live.message(t)
	policy.Etag = liveEtag
	feed := &publishing{
		PolicySet: servertest.PolicySet{
			Cursor: authz.Cursor{Sequence: 1, Nonce: "n"},
			Policies: map[authz.PolicyName]authz.PolicyState{name: {Policy: policy, Experiments: []*adminpb.PolicyExperiment{
				{Name: string(name) + "/experiments/next", Uid: "uid", Etag: candidateEtag, Policy: r.candidate.message(t)},
			}}},
		},
		published: make(chan []authz.PublishedEvidence, 1000), // none is waited for in the end
		tallies:   make(map[string]report.Published),
	}
	s := servertest.Run(t, sidecar.Config{Feed: feed, Scope: authz.Scope{Location: location}, Node: "test", Policy: "shop"})
	for _, q := range requests {
		http := q.input["attributes"].(map[string]any)["request"].(map[string]any)["http"].(map[string]any)
		check := rehearsaltest.Request(q.input, q.at)
		check.ID, check.Method, check.Path = q.id, http["method"].(string), http["path"].(string)
		s.Check(t.Context(), check)
	}
	return feed
}

// publishing is a store that hands over what is published.
type publishing struct {
	servertest.PolicySet
	published chan []authz.PublishedEvidence
	// tallies :: tally → what it has published last.
	tallies map[string]report.Published
}

// Publish is of authz.Feed.
func (f *publishing) Publish(_ context.Context, node string, of []authz.PublishedEvidence) (authz.Publication, error) {
	f.published <- of
	return authz.Publication{Nodes: 1}, nil
}

// sum adds up what has been published.
func (f *publishing) sum(t *testing.T, of []authz.PublishedEvidence) *evidencepb.Evidence {
	t.Helper()
	for _, e := range of {
		f.tallies[e.Tally] = report.Published{Node: "test", Value: e.Value}
	}
	collected, err := report.Collect(report.Content{UID: "uid", Etag: candidateEtag}, nil, slices.Collect(maps.Values(f.tallies)))
	if err != nil {
		t.Fatal(err)
	}
	return collected.Evidence
}
