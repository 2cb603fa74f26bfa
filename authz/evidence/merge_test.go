package evidence_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"understudy/authz"
	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
	"understudy/cmd/testkit"
)

// randomRequest is one of few endpoints, callers and outcomes.
func randomRequest(r *rand.Rand) request {
	decisions := []authz.Decision{
		allowed, allowed, allowed, denied, {Rule: "other", Reason: "never", HTTPStatus: 404},
		authz.Failed(authz.FailureDeadline, "slow"),
	}
	one := request{
		// A few words more than have a name, and no more groups than are kept.
		method: "GET", path: fmt.Sprintf("/orders/w%c", 'a'+r.IntN(18)),
		live: decisions[r.IntN(len(decisions))], experiment: decisions[r.IntN(len(decisions))],
		at: time.Duration(r.IntN(3600)) * time.Second,
	}
	if r.IntN(3) > 0 {
		one.principal = fmt.Sprintf("spiffe://%d", r.IntN(100))
	}
	if r.IntN(2) > 0 {
		one.labels = []authz.Label{{Name: "user", Value: fmt.Sprint(r.IntN(60))}}
	}
	return one
}

// merge adds evidence to other evidence of these tests.
func merge(into *evidencepb.Evidence, from ...*evidencepb.Evidence) {
	sum := evidence.NewSum(evidence.Content{Experiment: experiment, UID: "uid", Etag: "etag"}, nil)
	for _, e := range append([]*evidencepb.Evidence{proto.CloneOf(into)}, from...) {
		sum.Add(e)
	}
	proto.Reset(into)
	proto.Merge(into, sum.Evidence())
}

// totals are what must not depend on the order of merges: the sums over all pairs.
type totals struct {
	Counts *evidencepb.Counts
	Drops  map[string]int64
	// Differing :: kind → requests of groups and others.
	Differing map[int32]int64
	Endpoints int64
	// Labels :: kind → requests with a label.
	Labels map[int32]int64
}

func totalsOf(e *evidencepb.Evidence) totals {
	out := totals{Counts: &evidencepb.Counts{}, Drops: map[string]int64{}, Differing: map[int32]int64{}, Labels: map[int32]int64{}}
	for _, p := range pairs(e) {
		c := p.GetCounts()
		out.Counts.BothAllow += c.GetBothAllow()
		out.Counts.AllowedChanged += c.GetAllowedChanged()
		out.Counts.NewlyDenied += c.GetNewlyDenied()
		out.Counts.AllowedFailed += c.GetAllowedFailed()
		out.Counts.BothDeny += c.GetBothDeny()
		out.Counts.DeniedChanged += c.GetDeniedChanged()
		out.Counts.NewlyAllowed += c.GetNewlyAllowed()
		out.Counts.DeniedFailed += c.GetDeniedFailed()
		out.Counts.LiveFailed += c.GetLiveFailed()
		out.Counts.Dropped += c.GetDropped()
		for reason, n := range p.GetDrops() {
			out.Drops[reason] += n
		}
		for _, g := range p.GetGroups() {
			out.Differing[g.GetKind()] += g.GetCount()
		}
		for kind, n := range p.GetOther() {
			out.Differing[kind] += n
		}
		out.Endpoints += p.GetOtherEndpoints()
		for _, at := range p.GetEndpoints() {
			out.Endpoints += at.GetCount()
		}
		for _, l := range p.GetLabels() {
			out.Labels[l.GetKind()] += l.GetTotal()
		}
	}
	return out
}

// groupsOf :: group → requests, of the pair of a live policy.
func groupsOf(e *evidencepb.Evidence, policyEtag string) map[string]int64 {
	out := make(map[string]int64)
	for _, p := range e.GetPairs() {
		if p.GetPolicyEtag() != policyEtag {
			continue
		}
		for _, g := range p.GetGroups() {
			out[fmt.Sprintf("%d %s %s %s %s %d %d", g.GetKind(), g.GetMethod(), g.GetPattern(), g.GetRule(), g.GetReason(), g.GetPolicyStatus(), g.GetExperimentStatus())] += g.GetCount()
		}
	}
	return out
}

// TestMergesInAnyOrderAreEqual merges the evidence of some tallies in many orders and steps.
func TestMergesInAnyOrderAreEqual(t *testing.T) {
	for seed := range uint64(testkit.Cases(10)) {
		r := rand.New(rand.NewPCG(seed, 7))
		all := make([]*evidencepb.Evidence, 8)
		whole := newTally() // of all requests
		for i := range all {
			tally := newTally()
			for range 300 {
				one, etag := randomRequest(r), fmt.Sprint("live", r.IntN(3))
				count(tally, etag, one)
				count(whole, etag, one)
				if r.IntN(20) == 0 {
					tally.Drop(etag, evidence.Drop{Reason: "queue_full", Time: begun})
					whole.Drop(etag, evidence.Drop{Reason: "queue_full", Time: begun})
				}
			}
			all[i] = tally.Snapshot(begun)
			checkSums(t, all[i])
		}
		truth := whole.Snapshot(begun)
		inOrder := &evidencepb.Evidence{}
		merge(inOrder, all...)
		want, groups := totalsOf(inOrder), groupsOf(inOrder, "live0")
		if !proto.Equal(want.Counts, totalsOf(truth).Counts) {
			t.Fatalf("seed %d: got counts %v, want %v", seed, want.Counts, totalsOf(truth).Counts)
		}
		before := proto.CloneOf(all[0])
		for range 10 {
			got := mergeRandomly(r, all)
			checkSums(t, got)
			if d := cmp.Diff(want, totalsOf(got), cmp.Comparer(func(a, b *evidencepb.Counts) bool { return proto.Equal(a, b) })); d != "" {
				t.Fatalf("seed %d: totals (-want +got):\n%s", seed, d)
			}
			if d := cmp.Diff(groups, groupsOf(got, "live0")); d != "" {
				t.Fatalf("seed %d: groups (-want +got):\n%s", seed, d)
			}
		}
		if !proto.Equal(before, all[0]) {
			t.Fatal("what was merged has been modified")
		}
	}
}

// mergeRandomly merges two at a time until one is left.
func mergeRandomly(r *rand.Rand, of []*evidencepb.Evidence) *evidencepb.Evidence {
	left := make([]*evidencepb.Evidence, len(of))
	for i, at := range r.Perm(len(of)) {
		left[i] = proto.CloneOf(of[at])
	}
	for len(left) > 1 {
		i := r.IntN(len(left) - 1)
		n := 1 + r.IntN(len(left)-i-1)
		merge(left[i], left[i+1:i+1+n]...)
		left = append(left[:i+1], left[i+1+n:]...)
	}
	return left[0]
}

// TestEvidenceOfAnotherContentIsNotMerged has another etag.
func TestEvidenceOfAnotherContentIsNotMerged(t *testing.T) {
	one, other := newTally(), evidence.NewTally(evidence.Content{Experiment: experiment, UID: "uid", Etag: "changed"}, nil, evidence.NewPatterns())
	count(one, "live", request{path: "/", live: allowed, experiment: denied})
	count(other, "live", request{path: "/", live: allowed, experiment: denied})
	sum := &evidencepb.Evidence{}
	merge(sum, one.Snapshot(begun), other.Snapshot(begun))
	if got := totalsOf(sum).Counts.GetNewlyDenied(); got != 1 || sum.GetExperimentEtag() != "etag" {
		t.Errorf("%d requests of %q are merged, want 1 of etag", got, sum.GetExperimentEtag())
	}
}

// TestEarlierPairsAreAddedUp compares with six live policies, one after the other.
func TestEarlierPairsAreAddedUp(t *testing.T) {
	tally := newTally()
	for i := range 6 {
		count(tally, fmt.Sprint("live", i), request{path: "/", live: allowed, experiment: denied, at: time.Duration(i) * time.Minute})
	}
	got := tally.Snapshot(begun)
	checkSums(t, got)
	var etags []string
	for _, p := range got.GetPairs() {
		etags = append(etags, p.GetPolicyEtag())
	}
	if d := cmp.Diff([]string{"live5", "live4", "live3", "live2"}, etags); d != "" {
		t.Errorf("pairs (-want +got):\n%s", d)
	}
	if n := got.GetEarlier().GetCounts().GetNewlyDenied(); n != 2 {
		t.Errorf("earlier pairs have %d requests, want 2", n)
	}
}

// TestLabelsAreWithinTheirErrors counts more values than are kept, over several tallies.
func TestLabelsAreWithinTheirErrors(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	truth := make(map[string]int64)
	var all []*evidencepb.Evidence
	for range 4 {
		tally := newTally()
		for i := range 2000 {
			value := fmt.Sprint(int(r.ExpFloat64() * 25))
			truth[value]++
			count(tally, "live", request{path: "/", live: allowed, experiment: denied, labels: []authz.Label{{Name: "user", Value: value}}})
			if i%500 == 0 {
				tally.Snapshot(begun)
			}
		}
		all = append(all, tally.Snapshot(begun))
	}
	sum := &evidencepb.Evidence{}
	merge(sum, all...)
	l := sum.GetPairs()[0].GetLabels()[0]
	if l.GetTotal() != 8000 || len(l.GetValues()) < 10 {
		t.Fatalf("%d requests have the label, with %d values; want 8000 with at least 10", l.GetTotal(), len(l.GetValues()))
	}
	for _, v := range l.GetValues() {
		if n := truth[v.GetValue()]; n < v.GetCount() || n > v.GetCount()+v.GetError() {
			t.Errorf("%d requests have the value %s, want %d to %d", n, v.GetValue(), v.GetCount(), v.GetCount()+v.GetError())
		}
	}
	if exact := maps.Clone(truth); len(exact) <= 32 {
		t.Errorf("there are %d values, which is no test", len(exact))
	}
}

// TestCallersAreEstimated compares sketches with the truth, also of unions.
func TestCallersAreEstimated(t *testing.T) {
	for _, n := range []int{1, 7, 32, 33, 500, 20_000} {
		var all []*evidencepb.Evidence
		for half := range 2 {
			tally := newTally()
			for i := half * n / 3; i < n; i++ {
				count(tally, "live", request{path: "/", principal: fmt.Sprint("spiffe://x/", i), live: allowed, experiment: denied})
			}
			all = append(all, tally.Snapshot(begun))
		}
		sum := &evidencepb.Evidence{}
		merge(sum, all...)
		got := float64(evidence.Callers(sum.GetPairs()[0].GetGroups()[0].GetCallers()))
		// Four standard errors; a list is exact.
		if off := got/float64(n) - 1; off > 0.26 || off < -0.26 || n <= 32 && off != 0 {
			t.Errorf("%d callers are estimated as %v", n, got)
		}
	}
}
