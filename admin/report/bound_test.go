package report_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	authzevidence "understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
)

// callersOf are those of so many requests: a list of so many hashes, from one on.
func callersOf(requests int64, from, callers int) *evidencepb.Callers {
	set := []byte{0}
	for i := range callers {
		set = binary.BigEndian.AppendUint32(set, uint32(from+i)) // a few
	}
	return &evidencepb.Callers{Set: set, Requests: requests}
}

// allowing is a pair of 40 requests of 6 callers that the live policy allows, as many of which are
// newly denied as are given.
func allowing(newlyDenied int64) *evidencepb.Pair {
	return &evidencepb.Pair{
		PolicyEtag: "p2", Counts: &evidencepb.Counts{BothAllow: 40 - newlyDenied, NewlyDenied: newlyDenied}, AllowedCallers: callersOf(40, 1, 6),
	}
}

// boundsText writes bounds: "newly denied: 0 of 6 callers, 39.3%".
func boundsText(bounds []*adminpb.Report_Bound) string {
	var texts []string
	for _, b := range bounds {
		about := ""
		if b.Estimated {
			about = "about "
		}
		kind := strings.ToLower(strings.ReplaceAll(b.Kind.String(), "_", " "))
		texts = append(texts, fmt.Sprintf("%s: %s%d of %d %s, %s", kind, about, b.DifferingCount, b.Count, strings.ToLower(b.Unit.String()), report.Share(b.UpperRatio)))
	}
	return strings.Join(texts, "; ")
}

// TestBounds: what is excluded, over callers where they are known, and over requests.
func TestBounds(t *testing.T) {
	with := func(p *evidencepb.Pair, change func(*evidencepb.Pair)) *evidencepb.Pair {
		change(p)
		return p
	}
	for name, c := range map[string]struct {
		pair *evidencepb.Pair
		want string
	}{
		"nothing compared": {&evidencepb.Pair{PolicyEtag: "p2"}, ""},
		"no difference":    {allowing(0), "newly denied: 0 of 6 callers, 39.3%; newly denied: 0 of 40 requests, 7.22%"},
		"a caller differs": {
			with(allowing(9), func(p *evidencepb.Pair) { p.NewlyDeniedCallers = callersOf(9, 1, 1) }),
			"newly denied: 1 of 6 callers, 58.2%; newly denied: 9 of 40 requests, 36%",
		},
		"two requests that differ have no caller": {
			with(allowing(9), func(p *evidencepb.Pair) { p.NewlyDeniedCallers, p.AllowedCallers.Requests = callersOf(7, 1, 1), 38 }),
			"newly denied: 3 of 6 callers, 84.7%; newly denied: 9 of 40 requests, 36%",
		},
		"more requests that differ have no caller than there are callers": {
			with(allowing(9), func(p *evidencepb.Pair) { p.NewlyDeniedCallers = nil }),
			"newly denied: 6 of 6 callers, 100%; newly denied: 9 of 40 requests, 36%",
		},
		"of 95 % the caller is known": {
			with(allowing(0), func(p *evidencepb.Pair) { p.AllowedCallers.Requests = 38 }),
			"newly denied: 0 of 6 callers, 39.3%; newly denied: 0 of 40 requests, 7.22%",
		},
		"of fewer it is not": {
			with(allowing(0), func(p *evidencepb.Pair) { p.AllowedCallers.Requests = 37 }), "newly denied: 0 of 40 requests, 7.22%",
		},
		"both verdicts": {
			with(allowing(0), func(p *evidencepb.Pair) {
				p.Counts.BothDeny, p.Counts.NewlyAllowed, p.Counts.DeniedFailed = 5, 4, 1
				p.DeniedCallers, p.NewlyAllowedCallers = callersOf(10, 20, 3), callersOf(4, 21, 2)
			}),
			"newly denied: 0 of 6 callers, 39.3%; newly denied: 0 of 40 requests, 7.22%; newly allowed: 2 of 3 callers, 98.3%; " +
				"newly allowed: 4 of 10 requests, 69.6%",
		},
		"more than 1 % was lost": {with(allowing(0), func(p *evidencepb.Pair) { p.Counts.Dropped = 1 }), ""},
		// Half of the requests were drawn from 3 each: (20+60)²/(20+180) = 32 of 40 requests, and 32/40 of
		// the callers. The one caller who differs was drawn, and stands for 3/2 of one.
		"chance chose": {
			with(allowing(10), func(p *evidencepb.Pair) {
				p.NewlyDeniedCallers = callersOf(10, 1, 1)
				p.Weights, p.Squares = &evidencepb.Counts{BothAllow: 50, NewlyDenied: 30}, &evidencepb.Counts{BothAllow: 110, NewlyDenied: 90}
			}),
			"newly denied: about 2 of 4 callers, 90.2%; newly denied: about 12 of 32 requests, 53.6%",
		},
	} {
		got := build(&evidencepb.Evidence{ExperimentEtag: "e", Pairs: []*evidencepb.Pair{c.pair}})
		if text := boundsText(got.Bounds); text != c.want {
			t.Errorf("%s: the bounds are\n%s, want\n%s", name, text, c.want)
		}
		if one, all := boundsText(got.Bounds), boundsText(got.AllPairsBounds); one != all {
			t.Errorf("%s: of the only pair they are %s, and of all pairs %s", name, one, all)
		}
	}
}

// TestBoundsOfManyCallers: of callers that are estimated there are rather too few, and of those that differ
// rather too many; over all pairs each counts once.
func TestBoundsOfManyCallers(t *testing.T) {
	const callers, differing = 2000, 200
	sum := authzevidence.NewSum(authzevidence.Content{UID: "uid", Etag: "e"}, authzevidence.NewPatterns())
	patterns := authzevidence.NewPatterns()
	allow := authz.Decision{Effect: authz.Allow}
	for _, policy := range []string{"p1", "p2"} {
		for i := range callers {
			request := &authz.Request{Method: "GET", Path: "/", Principal: fmt.Sprint("user", i)}
			outcome := authzevidence.NewOutcome(authz.Unchanged, allow, allow, nil)
			if i < differing {
				outcome = authzevidence.NewOutcome(authz.NewlyDenied, allow, authz.Decision{}, nil)
			}
			sum.Count(policy, authzevidence.Comparison{Request: request, Pattern: patterns.Of("GET", "/"), Outcome: outcome})
		}
	}
	r := build(sum.Evidence())
	for name, bounds := range map[string][]*adminpb.Report_Bound{"the pair": r.Bounds, "all pairs": r.AllPairsBounds} {
		if len(bounds) != 2 {
			t.Fatalf("%s: got %v, want a bound of callers and one of requests", name, bounds)
		}
		b := bounds[0]
		if !b.Estimated || b.Count > callers || b.Count < callers*7/10 || b.DifferingCount < differing || b.DifferingCount > differing*13/10 {
			t.Errorf("%s: got %v, want %d of %d callers with two standard errors", name, b, differing, callers)
		}
		if b.UpperRatio < 0.1 || b.WatchedUpperRatio <= b.UpperRatio {
			t.Errorf("%s: got %v, want more than 10%%, and more for who watches", name, b)
		}
	}
	if r.AllPairsBounds[1].Count != 2*callers || r.AllPairsBounds[1].Estimated {
		t.Errorf("over all pairs there are %v, want exactly %d requests", r.AllPairsBounds[1], 2*callers)
	}
}

// TestJudgeBounds holds reports against requirements on bounds.
func TestJudgeBounds(t *testing.T) {
	pair := func(newlyDenied int64, change func(*evidencepb.Pair)) *adminpb.Report {
		p := allowing(newlyDenied)
		if change != nil {
			change(p)
		}
		return build(&evidencepb.Evidence{ExperimentEtag: "e", Pairs: []*evidencepb.Pair{p}, Earlier: allowing(0)})
	}
	clean, nobody := pair(0, nil), pair(0, func(p *evidencepb.Pair) { p.AllowedCallers = nil })
	some := pair(0, func(p *evidencepb.Pair) { p.AllowedCallers.Requests = 32 })
	one := func(p *evidencepb.Pair) { p.NewlyDeniedCallers = callersOf(9, 1, 1) }
	differing, accepted, partly := pair(9, one), pair(9, one), pair(9, func(p *evidencepb.Pair) { p.NewlyDeniedCallers = callersOf(9, 1, 4) })
	accepted.AcceptedDifferences = []*adminpb.Report_KindCount{{Kind: adminpb.Report_NEWLY_DENIED, RequestCount: 9}}
	partly.AcceptedDifferences = []*adminpb.Report_KindCount{{Kind: adminpb.Report_NEWLY_DENIED, RequestCount: 7}}
	lossy := pair(0, func(p *evidencepb.Pair) { p.Counts.Dropped = 1 })
	waiting := pair(0, func(p *evidencepb.Pair) { p.Counts.Dropped, p.Drops = 1, map[string]int64{authzevidence.Waiting: 1} })
	drawn := pair(0, func(p *evidencepb.Pair) {
		p.Weights, p.Squares = &evidencepb.Counts{BothAllow: 80}, &evidencepb.Counts{BothAllow: 200}
	})
	for _, c := range []struct {
		requirement string
		report      *adminpb.Report
		have, need  string
		met         bool
	}{
		{"newly-denied<=51%@95", clean, "at most 51% of callers (0 of 6 callers)", "at most 51% at 95%, however often one looks", true},
		{"newly-denied<=50%@95", clean, "at most 51% of callers (0 of 6 callers)", "at most 50% at 95%, however often one looks", false},
		{"newly-denied<=11%@95/requests", clean, "at most 11% of requests, if they are independent (0 of 40 requests that the live policy allows)", "at most 11% of requests at 95%, however often one looks", true},
		{"newly-denied<=10%@95/requests", clean, "at most 11% of requests, if they are independent (0 of 40 requests that the live policy allows)", "at most 10% of requests at 95%, however often one looks", false},
		{"newly-denied<=100%@95", nobody, "not known: none of the requests has a caller; @95/requests is about requests", "at most 100% at 95%, however often one looks", false},
		{"newly-denied<=100%@95", some, "not known: only 80% of the requests have a caller; @95/requests is about requests", "at most 100% at 95%, however often one looks", false},
		{"newly-denied<=11%@95/requests", some, "at most 11% of requests, if they are independent (0 of 40 requests that the live policy allows)", "at most 11% of requests at 95%, however often one looks", true},
		{"newly-denied<=6%@95/requests,scope=all-pairs", nobody, "at most 5.5% of requests, if they are independent (0 of 80 requests that the live policy allows) over all pairs", "at most 6% of requests at 95%, however often one looks", true},
		{"newly-denied<=50%@95", differing, "at most 71% of callers (1 of 6 callers)", "at most 50% at 95%, however often one looks", false},
		{"newly-denied<=51%@95", accepted, "at most 51% of callers (0 of 6 callers, apart from 9 accepted requests)", "at most 51% at 95%, however often one looks", true},
		{"newly-denied<=51%@95", partly, "at most 84% of callers (2 of 6 callers, apart from 7 accepted requests)", "at most 51% at 95%, however often one looks", false},
		{"newly-denied<=21%@95/requests", partly, "at most 21% of requests, if they are independent (2 of 40 requests that the live policy allows, apart from 7 accepted requests)", "at most 21% of requests at 95%, however often one looks", true},
		{"newly-allowed<=100%@95", clean, "no request compared that the live policy denies", "at most 100% at 95%, however often one looks", false},
		{"newly-denied<=100%@95", build(nil), "nothing compared", "at most 100% at 95%, however often one looks", false},
		{"newly-denied<=100%@95", lossy, "not known: 2.44% was lost, not by chance (1 of 41)", "at most 100% at 95%, however often one looks", false},
		{"newly-denied<=100%@95", waiting, "not known yet: 1 requests wait to be compared", "at most 100% at 95%, however often one looks", false},
		{"newly-denied<=65%@95", drawn, "at most 65% of callers (as precise as 0 of 4 callers)", "at most 65% at 95%, however often one looks", true},
		{"newly-denied<=14%@95/requests", drawn, "at most 14% of requests, if they are independent (as precise as 0 of 32 requests that the live policy allows)", "at most 14% of requests at 95%, however often one looks", true},
	} {
		q, err := report.Parse(c.requirement)
		if err != nil {
			t.Fatal(err)
		}
		got := report.Judge(q, adminpb.Report_RequirementResult_CALL, c.report, report.Committer{})
		if len(got) != 1 || got[0].Have != c.have || got[0].Need != c.need || got[0].Met != c.met || got[0].Unreachable {
			t.Errorf("%s: got %v, want have %q, need %q, met %v", c.requirement, got, c.have, c.need, c.met)
		}
	}
}

// TestWatchersAreRarelyWrong has watchers look at a report after every request, until a requirement is
// met that should not be: the share is just above its limit. They are wrong in at most 5 % of runs,
// however long they look. Those who take the bound for one look at its word are in many more.
func TestWatchersAreRarelyWrong(t *testing.T) {
	const runs, longest = 4000, 2000
	for _, share := range []float64{0.3, 0.1, 0.02, 0.005} {
		random := rand.New(rand.NewPCG(29, math.Float64bits(share)))
		watched := firstMet(longest, func(k, n int64) bool {
			r := judged(k, n)
			q := &adminpb.CommitRequirements{MaxNewlyDeniedRequestBound: proto.Float64(share)}
			return report.Judge(q, adminpb.Report_RequirementResult_CALL, r, report.Committer{})[0].Met
		})
		once := firstMet(longest, func(k, n int64) bool {
			return report.BoundOf(judged(k, n), adminpb.Report_NEWLY_DENIED).UpperRatio <= share
		})
		wrong, naive := 0, 0
		for range runs {
			k, met, metOnce := 0, false, false
			for n := 1; n <= longest; n++ {
				if random.Float64() < share+1e-12 {
					k++
				}
				met = met || n >= watched(k)
				metOnce = metOnce || n >= once(k)
			}
			wrong, naive = wrong+number(met), naive+number(metOnce)
		}
		if limit := runs * 5 / 100; wrong > limit || wrong == 0 {
			t.Errorf("a share of %v was found to be less in %d of %d runs, want some, and at most %d", share, wrong, runs, limit)
		}
		if naive < runs*12/100 {
			t.Errorf("a share of %v was found to be less in %d of %d runs by who watches a bound for one look, want many more", share, naive, runs)
		}
	}
}

func number(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// judged is a report of n requests that the live policy allows, k of which are newly denied.
func judged(k, n int64) *adminpb.Report {
	p := &evidencepb.Pair{PolicyEtag: "p2", Counts: &evidencepb.Counts{BothAllow: n - k, NewlyDenied: k}}
	return build(&evidencepb.Evidence{ExperimentEtag: "e", Pairs: []*evidencepb.Pair{p}})
}

// firstMet returns of how many requests k have to differ, at least, for a requirement to be met that is
// met by more of them, too; more than longest if it is by none of up to longest.
func firstMet(longest int, met func(k, n int64) bool) func(k int) int {
	known := make(map[int]int)
	return func(k int) int {
		if _, ok := known[k]; !ok {
			known[k] = k + sort.Search(longest+1-min(k, longest), func(more int) bool { return met(int64(k), int64(k+max(1, more))) })
			if known[k] == k {
				known[k] = k + 1
			}
		}
		return known[k]
	}
}
