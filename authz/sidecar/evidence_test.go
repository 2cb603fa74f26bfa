package sidecar_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
	"understudy/authz/sidecar"
	"understudy/cmd/testkit"
)

// publishedFeed keeps the last publication of each tally.
type publishedFeed struct {
	*memoryFeed
	publishing sync.Mutex
	tallies    map[string]authz.PublishedEvidence
}

func newPublishedFeed() *publishedFeed {
	return &publishedFeed{memoryFeed: newFeed(), tallies: make(map[string]authz.PublishedEvidence)}
}

func (f *publishedFeed) Publish(_ context.Context, _ string, of []authz.PublishedEvidence) (authz.Publication, error) {
	f.publishing.Lock()
	defer f.publishing.Unlock()
	for _, e := range of {
		if e.Serial > f.tallies[e.Tally].Serial {
			f.tallies[e.Tally] = e
		}
	}
	return authz.Publication{Nodes: 1}, nil
}

// sum adds up what was published of an experiment.
func (f *publishedFeed) sum(t testing.TB) *evidencepb.Evidence {
	t.Helper()
	return f.merged(t, func(tally string, e *evidencepb.Evidence) {
		if !e.GetFinal() {
			t.Errorf("the tally %s is not final after the sidecar has ended", tally)
		}
	})
}

// merged adds up what was published, and hands over each tally.
func (f *publishedFeed) merged(t testing.TB, each func(tally string, e *evidencepb.Evidence)) *evidencepb.Evidence {
	t.Helper()
	f.publishing.Lock()
	defer f.publishing.Unlock()
	var sum *evidence.Sum
	for _, p := range f.tallies {
		e := &evidencepb.Evidence{}
		if err := proto.Unmarshal(p.Value, e); err != nil {
			t.Fatal(err)
		}
		each(p.Tally, e)
		if sum == nil {
			sum = evidence.NewSum(evidence.Content{Experiment: e.GetExperiment(), UID: e.GetUid(), Etag: e.GetExperimentEtag()}, nil)
		}
		sum.Add(e)
	}
	if sum == nil {
		return &evidencepb.Evidence{}
	}
	return sum.Evidence()
}

// The rules decide by what the request says that they are to make of it.
const (
	liveRule = `package envoy.authz
default allow := false
allow := {"allowed": true, "headers": {"x-role": "a"}} if input.kind in {"same", "deny", "change", "fail"}`
	candidateRule = `package envoy.authz
default allow := {"allowed": false, "reason": "tighter"}
allow := {"allowed": true, "headers": {"x-role": "a"}} if input.kind in {"same", "allow"}
allow := {"allowed": true, "headers": {"x-role": "b"}} if input.kind == "change"
allow := {"allowed": true, "headers": {"x-role": "c"}} if input.kind == "fail"
allow := {"allowed": true, "headers": {"x-role": "d"}} if input.kind == "fail"`
)

// TestEveryCountIsTheTruth sends 20,000 requests of known differences in random order, with a
// change of the live policy on the way. Under the race detector a tenth of the callers send a tenth
// of the requests.
func TestEveryCountIsTheTruth(t *testing.T) {
	const batch = 500
	all, callers := testkit.RaceCases(20_000), testkit.RaceCases(20)
	feed := newPublishedFeed()
	state := func(etag string) authz.PolicyState {
		next := experiment("e", "W/e", candidateRule)
		next.Uid = "uid"
		return authz.PolicyState{Policy: policy(etag, liveRule), Experiments: []*adminpb.PolicyExperiment{next}}
	}
	feed.put(webName, state("W/1"))
	rec := newRecording()
	s, stop := startWith(t, feed, rec, func(c *sidecar.Config) { c.Feed = feed })
	t.Cleanup(stop)
	testkit.Closed(t, "s is ready", s.Ready())
	r := rand.New(rand.NewPCG(1, 2))
	kinds := []string{"same", "same", "same", "deny", "allow", "change", "fail"}
	// want :: etag → kind, endpoint → requests.
	want := map[string]map[string]int64{"W/1": {}, "W/2": {}}
	for i := range all {
		etag := "W/1"
		if i >= all/2 {
			etag = "W/2"
		}
		if i == all/2 {
			feed.awaitApplied(t, feed.put(webName, state("W/2")))
		}
		kind, method := kinds[r.IntN(len(kinds))], []string{"GET", "POST"}[r.IntN(2)]
		place := []string{"carts", "orders", "users"}[r.IntN(3)]
		one := request(method, map[string]any{"kind": kind, "n": r.IntN(50)})
		one.ID, one.Time, one.Path = fmt.Sprint("d", i), time.Unix(1_800_000_000+int64(i), 0), fmt.Sprintf("/%s/o-%d", place, r.IntN(200))
		one.Principal = fmt.Sprint("spiffe://x/", r.IntN(callers))
		s.Check(t.Context(), one)
		want[etag][kind]++
		want[etag][method+" /"+place+"/*"]++
		if kind != "same" {
			want[etag][kind+" "+method+" /"+place+"/*"]++
		}
		if i%batch == batch-1 {
			for range batch {
				testkit.Receive(t, "a record", rec.arrived)
			}
		}
	}
	stop()
	sum := feed.sum(t)
	got := map[string]map[string]int64{}
	for i, p := range sum.GetPairs() {
		got[p.GetPolicyEtag()] = countsOfPair(t, p, i == 0, int64(callers))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("counts (-want +got):\n%s", d)
	}
	if len(sum.GetPairs()) != 2 || sum.GetEarlier() != nil {
		t.Errorf("there are %d pairs, want 2", len(sum.GetPairs()))
	}
}

// kindNames :: Report.Kind → what the request asked for.
var kindNames = map[adminpb.Report_Kind]string{
	adminpb.Report_NEWLY_DENIED: "deny", adminpb.Report_NEWLY_ALLOWED: "allow", adminpb.Report_RESPONSE_CHANGED: "change",
	adminpb.Report_FAILED: "fail",
}

// countsOfPair returns the counts of a pair by kind, endpoint, and group. The groups that differ in their causes alone have
// all callers together.
func countsOfPair(t *testing.T, p *evidencepb.Pair, present bool, callers int64) map[string]int64 {
	t.Helper()
	c := p.GetCounts()
	out := map[string]int64{
		"same": c.GetBothAllow() + c.GetBothDeny(), "deny": c.GetNewlyDenied(), "allow": c.GetNewlyAllowed(), "change": c.GetAllowedChanged() + c.GetDeniedChanged(), "fail": c.GetAllowedFailed() + c.GetDeniedFailed(),
	}
	for _, e := range p.GetEndpoints() {
		out[e.GetMethod()+" "+e.GetPattern()] += e.GetCount()
	}
	of := make(map[string][][]byte)
	for _, g := range p.GetGroups() {
		kind := adminpb.Report_Kind(g.GetKind())
		name := kindNames[kind] + " " + g.GetMethod() + " " + g.GetPattern()
		out[name] += g.GetCount()
		of[name] = append(of[name], g.GetCallers())
		if present && len(g.GetExamples()) == 0 { // there is no room for those of earlier pairs
			t.Errorf("the group %s %s has no example", kind, g.GetPattern())
		}
		if changed := fmt.Sprint(g.GetChanges()); kind == adminpb.Report_RESPONSE_CHANGED && changed != "[header x-role]" {
			t.Errorf("the group %s has changed %s, want the header alone", kind, changed)
		}
	}
	for name, sets := range of {
		if n := evidence.Callers(sets...); n != callers {
			t.Errorf("the groups %s have %d callers, want %d", name, n, callers)
		}
	}
	if n := c.GetDropped() + c.GetLiveFailed() + p.GetOtherEndpoints() + int64(len(p.GetOther())); n != 0 {
		t.Errorf("%d requests are dropped, or counted as other; want none", n)
	}
	if len(p.GetActive()) != 1 {
		t.Errorf("the pair was active in %v, want one span", p.GetActive())
	}
	return out
}

// TestEvidenceSaysWhyAndHowMuchWasSeen: causes, items and noise are published with counts.
func TestEvidenceSaysWhyAndHowMuchWasSeen(t *testing.T) {
	feed := newPublishedFeed()
	next := experiment("e", "W/e", allowIf(`input.method == "GET"; input.n > 3`))
	next.Uid = "uid"
	feed.put(webName, authz.PolicyState{Policy: policy("W/1", allowIf(onlyGET)), Experiments: []*adminpb.PolicyExperiment{next}})
	s, _ := start(t, feed, func(c *sidecar.Config) { c.Feed = feed })
	testkit.Closed(t, "s is ready", s.Ready())
	n := 0
	var cause *evidencepb.Cause
	testkit.Await(t, "all of it is published", func() bool {
		n++
		s.Check(t.Context(), request("GET", map[string]any{"n": n % 6}))
		p := feed.published(t)
		for _, g := range p.GetGroups() { // another one has the requests whose causes are not known
			for _, c := range g.GetCauses() {
				cause = c
			}
		}
		return cause != nil && len(p.GetGroups()) <= 2 && p.GetNoise().GetSampled() > 0 && len(p.GetItems()) > 0 && len(p.GetItems()[0].GetUntrue()) > 0
	})
	if cause.GetFile() != "authz.rego" || cause.GetLine() != 3 || cause.GetText() != "input.n > 3" {
		t.Errorf("got the cause %v, want authz.rego:3 input.n > 3", cause)
	}
}

// TestAcceptedPathsAreFollowed: an acceptance changes which paths keep their names, and nothing of what is counted.
func TestAcceptedPathsAreFollowed(t *testing.T) {
	feed := newPublishedFeed()
	next := experiment("e", "W/e", allowIf(`input.method == "PUT"`))
	next.Uid = "uid"
	accept := func(paths ...string) {
		next = proto.CloneOf(next)
		next.AcceptedPaths = paths
		feed.awaitApplied(t, feed.put(webName, authz.PolicyState{Policy: policy("W/1", allowIf(onlyGET)), Experiments: []*adminpb.PolicyExperiment{next}}))
	}
	s, _ := start(t, feed, func(c *sidecar.Config) { c.Feed = feed })
	accept()
	testkit.Closed(t, "s is ready", s.Ready())
	for i, paths := range [][]string{{"/payroll/export"}, {"/orders/*", "/payroll/export"}, nil} {
		s.Check(t.Context(), request("GET", nil))
		accept(paths...)
		var e *evidencepb.Evidence
		testkit.Await(t, fmt.Sprint("the paths are ", paths), func() bool {
			tallies := 0
			e = feed.merged(t, func(string, *evidencepb.Evidence) { tallies++ })
			if tallies > 1 {
				t.Fatalf("there are %d tallies, want one", tallies)
			}
			return slices.Equal(e.GetKeptPaths(), paths) && len(e.GetPairs()) > 0 && e.GetPairs()[0].GetCounts().GetNewlyDenied() == int64(i+1)
		})
	}
}

// published is the one pair that was published; empty before.
func (f *publishedFeed) published(t testing.TB) *evidencepb.Pair {
	t.Helper()
	f.publishing.Lock()
	defer f.publishing.Unlock()
	for _, p := range f.tallies {
		e := &evidencepb.Evidence{}
		if err := proto.Unmarshal(p.Value, e); err != nil {
			t.Fatal(err)
		}
		if len(e.GetPairs()) > 0 {
			return e.GetPairs()[0]
		}
	}
	return &evidencepb.Pair{}
}

// BenchmarkCheckBesideAnExperiment is what a check costs, with and without an experiment next to it whose decisions
// are cached.
func BenchmarkCheckBesideAnExperiment(b *testing.B) {
	for name, experiments := range map[string][]*adminpb.PolicyExperiment{
		"alone": nil, "rehearsed": {experiment("e", "W/e", candidateRule)},
	} {
		b.Run(name, func(b *testing.B) {
			feed := newFeed()
			feed.put(webName, authz.PolicyState{Policy: policy("W/1", liveRule), Experiments: experiments})
			s, _ := start(b, feed, func(c *sidecar.Config) { c.Recorder = nil })
			testkit.Closed(b, "s is ready", s.Ready())
			b.ReportAllocs()
			for b.Loop() {
				one := request("GET", map[string]any{"kind": "same"})
				one.Time, one.Path = time.Unix(1_800_000_000, 0), "/orders/17"
				s.Check(b.Context(), one)
			}
		})
	}
}
