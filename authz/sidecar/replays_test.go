package sidecar_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	evidencepb "understudy/authz/evidence/v1"
	"understudy/authz/sidecar"
	"understudy/cmd/testkit"
)

// anew makes a request again, as the front of Envoy's requests does of the bytes that it got.
type anew func() *authz.Request

func (a anew) Reread() func() (*authz.Request, error) {
	return func() (*authz.Request, error) { return a(), nil }
}

func (anew) BodySize() int { return 0 }

func (anew) CheckRequest(bool) string { return "" }

// rereadable returns a request of its own ID that can be made again.
func rereadable(id string, make anew) *authz.Request {
	r := make()
	r.ID, r.Time, r.Sent = id, time.Unix(1_800_000_000, 0), make
	return r
}

// replayed adds up what was published of requests that were replayed.
func (f *publishedFeed) replayed(t testing.TB) *evidencepb.Evidence {
	t.Helper()
	return f.merged(t, func(string, *evidencepb.Evidence) {})
}

// awaitReplayed waits until so many requests were replayed, compared or not, and returns what
// they came to.
func (f *publishedFeed) awaitReplayed(t testing.TB, requests int64) *evidencepb.Pair {
	t.Helper()
	var p *evidencepb.Pair
	testkit.Await(t, fmt.Sprint(requests, " requests are replayed"), func() bool {
		if all := f.replayed(t).GetReplayed(); len(all) > 0 {
			p = all[0]
		}
		c := p.GetCounts()
		return c.GetBothAllow()+c.GetBothDeny()+c.GetNewlyDenied()+c.GetNewlyAllowed()+c.GetAllowedFailed()+c.GetDeniedFailed()+c.GetDropped() == requests
	})
	return p
}

// TestRequestsFromBeforeAreReplayed sends requests, changes the live policy, sends others, and
// starts, stops and starts a preview.
func TestRequestsFromBeforeAreReplayed(t *testing.T) {
	t.Parallel()
	feed, m := newPublishedFeed(), newMeter()
	feed.put(webName, authz.PolicyState{Policy: policy("W/1", allowIf(`input.n < 1000`))})
	rec := newRecording()
	s, stop := startWith(t, feed, rec, func(c *sidecar.Config) { c.Feed, c.Meters, c.RecentRequests = feed, m, 1000 })
	t.Cleanup(stop)
	testkit.Closed(t, "s is ready", s.Ready())
	send := func(of string, count int) {
		for i := range count {
			s.Check(t.Context(), rereadable(fmt.Sprint(of, i), func() *authz.Request { return request("GET", map[string]any{"n": i}) }))
		}
	}
	send("before", 10) // by a version that is not live when the preview begins
	live := policy("W/2", allowIf(onlyGET))
	feed.awaitApplied(t, feed.put(webName, authz.PolicyState{Policy: live}))
	send("first", 100)
	next := experiment("e", "W/e", allowIf(`input.n >= 25`))
	next.Uid = "uid"
	begin := func(at int64) {
		next.PreviewMetadata = &adminpb.PolicyPreviewMetadata{StartTime: &timestamppb.Timestamp{Seconds: at}}
		feed.awaitApplied(t, feed.put(webName, authz.PolicyState{Policy: live, Experiments: []*adminpb.PolicyExperiment{proto.CloneOf(next)}}))
	}
	begin(1)
	p := feed.awaitReplayed(t, 100)
	if p.GetPolicyEtag() != "W/2" || p.GetCounts().GetNewlyDenied() != 25 || p.GetCounts().GetBothAllow()+p.GetCounts().GetBothDeny() != 75 {
		t.Errorf("got %s %v, want 25 denied and 75 unchanged by W/2", p.GetPolicyEtag(), p.GetCounts())
	}
	testkit.Await(t, "the causes are published", func() bool {
		g := feed.replayed(t).GetReplayed()[0].GetGroups()
		return slices.ContainsFunc(g, func(g *evidencepb.Group) bool { return len(g.GetCauses()) == 1 })
	})
	feed.awaitApplied(t, feed.put(webName, authz.PolicyState{Policy: live}))
	send("between", 5)
	begin(2)
	feed.awaitReplayed(t, 105)
	send("after", 3)
	rec.await(t, 3)
	stop()
	sum := feed.sum(t)
	if n := sum.GetReplayed()[0].GetCounts(); n.GetNewlyDenied() != 30 || n.GetBothAllow()+n.GetBothDeny() != 75 || n.GetDropped() != 0 {
		t.Errorf("%v are replayed in all, want 30 denied and 75 unchanged", n)
	}
	if n := sum.GetPairs()[0].GetCounts(); len(sum.GetPairs()) != 1 || n.GetNewlyDenied() != 3 || n.GetBothAllow()+n.GetBothDeny() != 0 {
		t.Errorf("%v are counted as they happen, want 3 denied", n)
	}
	if n := len(rec.await(t, 0)); n != 3 {
		t.Errorf("there are %d preview records, want 3, of the requests as they happened", n)
	}
	if n := m.count(t, "understudy.preview.comparisons") + m.count(t, "understudy.preview.dropped"); n != 3 {
		t.Errorf("the metrics have %d comparisons, want 3", n)
	}
}

// TestServicesAreNotAskedAboutWhatIsOver replays requests about which the live policy has asked
// a service: the reply is known to an experiment that asks the same, and no other call is made.
func TestServicesAreNotAskedAboutWhatIsOver(t *testing.T) {
	t.Parallel()
	service, other := newService(t, nil), newService(t, nil)
	feed := newPublishedFeed()
	live := rules(someRules, serviceRule(service.URL, false))
	feed.put(webName, authz.PolicyState{Policy: live})
	s, rec := start(t, feed, func(c *sidecar.Config) {
		c.Feed, c.External, c.RecentRequests = feed, loopbackAllowed(), 10
		c.External.ShadowCalls = true
	})
	testkit.Closed(t, "s is ready", s.Ready())
	const asked = 4
	for i := range asked {
		s.Check(t.Context(), rereadable(fmt.Sprint("d", i), func() *authz.Request { return envoys("GET") }))
	}
	for i, c := range []struct {
		candidate          *adminpb.Policy
		unchanged, dropped int64
	}{
		{candidateOf("same", lengthRule(0), serviceRule(service.URL, false)), asked, 0},
		{candidateOf("elsewhere", serviceRule(other.URL, true)), 0, asked},
	} {
		feed.publishing.Lock()
		clear(feed.tallies)
		feed.publishing.Unlock()
		feed.put(webName, authz.PolicyState{Policy: live, Experiments: []*adminpb.PolicyExperiment{{
			Name: webName + "/experiments/e", Uid: fmt.Sprint(i), Etag: c.candidate.Etag, Policy: c.candidate,
		}}})
		var p *evidencepb.Pair
		testkit.Await(t, "the requests are replayed", func() bool {
			p = feed.of(t, c.candidate.Etag)
			return p.GetCounts().GetBothAllow()+p.GetCounts().GetBothDeny()+p.GetCounts().GetDropped() == asked
		})
		if got := p.GetDrops()["service_not_asked"]; p.GetCounts().GetBothAllow()+p.GetCounts().GetBothDeny() != c.unchanged || got != c.dropped {
			t.Errorf("%s: %d are unchanged and %d dropped, want %d and %d", c.candidate.Etag, p.GetCounts().GetBothAllow()+p.GetCounts().GetBothDeny(), got, c.unchanged, c.dropped)
		}
	}
	if n, m := len(service.calls()), len(other.calls()); n != asked || m != 0 {
		t.Errorf("the services were called %d and %d times, want %d, by the live policy", n, m, asked)
	}
	if n := len(rec.await(t, 0)); n != 0 {
		t.Errorf("there are %d preview records, want none", n)
	}
}

// of is what was replayed for a content of an experiment.
func (f *publishedFeed) of(t testing.TB, etag string) *evidencepb.Pair {
	t.Helper()
	f.publishing.Lock()
	defer f.publishing.Unlock()
	for _, p := range f.tallies {
		e := &evidencepb.Evidence{}
		if err := proto.Unmarshal(p.Value, e); err != nil {
			t.Fatal(err)
		}
		if e.GetExperimentEtag() == etag && len(e.GetReplayed()) > 0 {
			return e.GetReplayed()[0]
		}
	}
	return nil
}

// TestNothingIsReplayedUnlessAskedFor starts a preview on a sidecar that keeps nothing.
func TestNothingIsReplayedUnlessAskedFor(t *testing.T) {
	t.Parallel()
	feed := newPublishedFeed()
	live := policy("W/1", allowIf(onlyGET))
	feed.put(webName, authz.PolicyState{Policy: live})
	rec := newRecording()
	s, stop := startWith(t, feed, rec, func(c *sidecar.Config) { c.Feed = feed })
	t.Cleanup(stop)
	testkit.Closed(t, "s is ready", s.Ready())
	send := func(id string) {
		s.Check(t.Context(), rereadable(id, func() *authz.Request { return request("GET", nil) }))
	}
	send("before")
	feed.awaitApplied(t, feed.put(webName, authz.PolicyState{Policy: live, Experiments: []*adminpb.PolicyExperiment{experiment("e", "W/e", allowIf(`false`))}}))
	send("after")
	rec.await(t, 1)
	stop()
	if sum := feed.sum(t); len(sum.GetReplayed()) != 0 || sum.GetPairs()[0].GetCounts().GetNewlyDenied() != 1 {
		t.Errorf("got %v, want the one request that came after the start", sum)
	}
}
