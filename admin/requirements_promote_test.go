package admin_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"

	"understudy/admin"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// The rows about revisions and promotion that a script would say badly.
func init() {
	rows["B-111b"] = revisionsAreTrimmed
	rows["B-115"] = updatesRaceForACircle
	rows["P-1"] = promotedRevisionHasItsID
	rows["P-9"] = func(r *row) { promotionsAreWhole(r); createsArePromoted(r) }
	rows["P-10"] = promotionsSurviveDeath
}

func lastSegment(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// policyAt reads a policy from the store.
func (r *row) policyAt(name string) *adminpb.Policy {
	r.Helper()
	records, err := r.store.Get(r.Context(), admin.Key(r.path(name)))
	if err != nil {
		r.Errorf("reading %s: %v", name, err)
		return &adminpb.Policy{}
	}
	return decodeRow(r, records[0], &adminpb.Policy{})
}

// revisionIDs returns the IDs of the revisions of web that are kept.
func (r *row) revisionIDs() map[string]bool {
	r.Helper()
	records, err := r.store.List(r.Context(), admin.Query{Collection: admin.Collection(r.path("$pol/revisions"))})
	if err != nil {
		r.Fatal(err)
	}
	ids := map[string]bool{}
	for _, record := range records {
		ids[lastSegment(string(record.Key))] = true
	}
	return ids
}

func promotedRevisionHasItsID(r *row) {
	here, there := r.policyAt("$pol").Revision, r.policyAt("$p/locations/l2/policies/web").Revision
	if lastSegment(here) != lastSegment(there) || here == there {
		r.Errorf("the revision is %s here and %s there", here, there)
	}
}

const keptRevisions = 100

// relabel makes a change of the policy and returns the ID of its revision.
func (r *row) relabel(text string) string {
	r.Helper()
	body := `{"displayName":` + asJSON(text) + `}`
	if a := r.send("PATCH", r.path("$POL"), &body); a.status != http.StatusOK {
		r.Fatalf("a change is answered with %d %s", a.status, a.body)
	}
	return lastSegment(r.policyAt("$pol").Revision)
}

func revisionsAreTrimmed(r *row) {
	made := []string{lastSegment(r.policyAt("$pol").Revision)}
	for n := range keptRevisions + 20 {
		made = append(made, r.relabel(strconv.Itoa(n)))
	}
	r.needRevisions(made[len(made)-keptRevisions:]...)
	if r.revisionIDs()[made[len(made)-keptRevisions-1]] {
		r.Error("the revision that was live the longest time ago is kept")
	}

	// What was live just before stays, however old it is.
	oldest, second := made[len(made)-keptRevisions], made[len(made)-keptRevisions+1]
	r.do("POST $POL/revisions/" + oldest + ":rollback {}\nOP Policy")
	r.needRevisions(made[len(made)-keptRevisions:]...)
	newest := r.relabel("after the rollback")
	r.needRevisions(oldest, newest)
	if r.revisionIDs()[second] {
		r.Error("a revision that was live longer ago is kept")
	}
	r.do("POST $POL/revisions/" + oldest + ":rollback {}\nOP Policy\nGET $POL/revisions/latest")
	if id := lastSegment(plain(r.value(".name"))); id != newest {
		r.Errorf("the latest revision is %s instead of %s", id, newest)
	}
	r.raceForRevisions(oldest)
}

// raceForRevisions has changes and rollbacks race each other.
func (r *row) raceForRevisions(to string) {
	target, back := r.path("$POL"), r.path("$POL/revisions/"+to+":rollback")
	var calls []func() *apiResponse
	for i := range 4 {
		calls = append(calls, func() (last *apiResponse) {
			for n := range 15 {
				body := fmt.Sprintf(`{"displayName":"racer %d %d"}`, i, n)
				last = r.send("PATCH", target, &body)
			}
			return last
		}, func() (last *apiResponse) {
			for range 5 {
				last = r.post(back, "{}")
			}
			return last
		})
	}
	for _, a := range together(calls...) {
		if a.status != http.StatusOK && a.status != http.StatusNotFound {
			r.Errorf("%s: %d %s", a.request, a.status, a.body)
		}
	}
	r.needRevisions(lastSegment(r.policyAt("$pol").Revision))
}

// needRevisions checks that as many revisions are kept as may be, these among them.
func (r *row) needRevisions(ids ...string) {
	r.Helper()
	kept := r.revisionIDs()
	if len(kept) != keptRevisions {
		r.Errorf("%d revisions are kept", len(kept))
	}
	for _, id := range ids {
		if !kept[id] {
			r.Errorf("the revision %s is gone", id)
		}
	}
}

// updatesRaceForACircle has two locations name each other at the same time: only one
// of both may.
func updatesRaceForACircle(r *row) {
	point := func(from, to string) func() *apiResponse {
		target, body := r.path("$P/locations/"+from+"/config"), r.body(`{"nextLocation":"$p/locations/`+to+`"}`)
		return func() *apiResponse { return r.send("PATCH", target, &body) }
	}
	for i := range 30 {
		a, b, c := fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i), fmt.Sprintf("c%d", i)
		counts := statusCounts(together(point(a, b), point(b, c), point(c, a)))
		if counts[http.StatusOK] != 2 || counts[http.StatusBadRequest] != 1 {
			r.Fatalf("round %d: of three updates that close a circle: %v", i, counts)
		}
	}
}

// pair is two policies of l1, a and b, whose display names are numbers that a client
// counts up in turn: a first. So a is never behind b, and never more than one ahead.
// Where they are promoted to, a reader sees the same.
type pair struct{ a, b int }

func (p pair) whole() bool { return p.a == p.b || p.a == p.b+1 }

// beginPair makes both policies, and their promotion possible.
func (r *row) beginPair() {
	r.do(`PATCH $L/config {"nextLocation":"$p/locations/l2"}` + "\n" +
		`POST $L/policies?policyId=a {"displayName":"0"}` + "\nOP Policy\n" +
		`POST $L/policies?policyId=b {"displayName":"0"}` + "\nOP Policy\nPOST $L/policies:promote {}\nOP")
}

// commitNumber makes a policy's number live by a commit.
func (r *row) commitNumber(id string, n int) bool {
	parent := r.path("$L/policies/" + id)
	a := r.trySend("POST", parent+"/experiments?policyExperimentId=next",
		r.body(fmt.Sprintf(`{"policy":{"name":"$l/policies/%s","displayName":"%d"}}`, id, n)))
	if a == nil || a.status != http.StatusOK {
		return r.served(a)
	}
	etag, _ := dig(a.decoded, ".response.etag")
	a = r.trySend("POST", parent+"/experiments/next:commit", `{"etag":`+asJSON(etag)+`}`)
	return r.served(a)
}

// served reports whether a call succeeded, and complains of one that failed with an
// answer. No answer is that of a server that was killed.
func (r *row) served(a *apiResponse) bool {
	if a != nil && a.status != http.StatusOK {
		r.Errorf("%s: %d %s", a.request, a.status, a.body)
	}
	return a != nil && a.status == http.StatusOK
}

func (r *row) promoteAll() bool {
	return r.served(r.trySend("POST", r.path("$L/policies:promote"), "{}"))
}

// promotedPair reads the pair in the next location at one instant.
func (r *row) promotedPair() pair {
	records, err := r.store.List(r.Context(), admin.Query{Collection: admin.Collection(r.path("$p/locations/l2/policies"))})
	if err != nil || len(records) != 2 {
		r.Errorf("the next location has %d policies: %v", len(records), err)
		return pair{}
	}
	var p pair
	p.a, _ = strconv.Atoi(decodeRow(r, records[0], &adminpb.Policy{}).DisplayName)
	p.b, _ = strconv.Atoi(decodeRow(r, records[1], &adminpb.Policy{}).DisplayName)
	return p
}

// loadedPair reads the pair as a sidecar of the next location does.
func (r *row) loadedPair() pair {
	l2 := r.locationOf("@l2")
	update, err := r.store.Load(r.Context(), l2)
	if err != nil {
		r.Errorf("loading: %v", err)
		return pair{}
	}
	number := func(id authz.PolicyID) int {
		n, _ := strconv.Atoi(update.Policies[l2.Policy(id)].Policy.GetDisplayName())
		return n
	}
	return pair{number("a"), number("b")}
}

// promotionsAreWhole promotes from two places while commits go on, under the eyes of
// readers, who see whole promotions in the order of the commits.
func promotionsAreWhole(r *row) {
	r.beginPair()
	const count = 30
	var committed, others sync.WaitGroup
	done := make(chan struct{})
	committed.Go(func() {
		for n := 1; n <= count && r.commitNumber("a", n) && r.commitNumber("b", n); n++ {
		}
	})
	for _, step := range []func() bool{r.promoteAll, r.promoteAll, r.watcher(r.promotedPair), r.watcher(r.loadedPair)} {
		others.Go(func() {
			for step() {
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	committed.Wait()
	close(done)
	others.Wait()
	r.promoteAll()
	if p := r.promotedPair(); p != (pair{count, count}) {
		r.Errorf("after %d commits and the last promotion the next location has %+v", count, p)
	}
}

// createsArePromoted creates policies while all are promoted: a promotion that takes
// effect after a create was answered has what was created.
func createsArePromoted(r *row) {
	var promoter sync.WaitGroup
	done := make(chan struct{})
	promoter.Go(func() {
		for n := 1000; r.changes(n) && r.promoteAll(); n++ {
			select {
			case <-done:
				return
			default:
			}
		}
	})
	l2 := r.locationOf("@l2")
	for i := range 25 {
		id := fmt.Sprintf("new-%d", i)
		if a := r.post(r.path("$L/policies?policyId="+id), "{}"); a.status != http.StatusOK {
			r.Errorf("a create is answered with %d %s", a.status, a.body)
			break
		}
		before := r.head(l2)
		r.await("the next promotion", func() string {
			update, err := r.store.Load(r.Context(), l2)
			if err != nil || update.Cursor.Sequence == before {
				return fmt.Sprint("nothing: ", err)
			}
			if _, there := update.Policies[l2.Policy(authz.PolicyID(id))]; !there {
				r.Errorf("a promotion after %s was created is without it", id)
			}
			return ""
		})
	}
	close(done)
	promoter.Wait()
}

// changes makes a change, so that the next promotion is one.
func (r *row) changes(n int) bool {
	return r.served(r.trySend("PATCH", r.path("$L/policies/a"), fmt.Sprintf(`{"displayName":"%d"}`, n)))
}

// watcher returns a step that reads the pair and checks it against the one before.
func (r *row) watcher(read func() pair) func() bool {
	var before pair
	return func() bool {
		p := read()
		if !p.whole() || p.a < before.a || p.b < before.b {
			r.Errorf("a reader sees %+v after %+v", p, before)
			return false
		}
		before = p
		return true
	}
}

// promotionsSurviveDeath kills servers while they promote. A generation is promoted
// once both policies have it, so the next location has one generation only, and as
// many operations as promotions that changed something.
func promotionsSurviveDeath(r *row) {
	r.beginPair()
	next := 1
	for round := range 4 {
		r.store.release()
		kill := r.startChild()
		r.promoteUntilKilled(kill, next, int64(2+round))
		r.store = openAddress(r.T, r.store.address, r.store.project, r.clock)
		p := r.promotedPair()
		// The first promotion brought generation 0.
		if promoted := r.promotionCount(); p.a != p.b || promoted != p.a+1 {
			r.Fatalf("after the death %d of the server: %+v and %d promotions", round+1, p, promoted)
		}
		r.settlePair(p.a)
		next = p.a + 1
	}
	r.servers["s1"] = r.serve(r.store)
}

// promoteUntilKilled promotes generation after generation, and kills the server in
// the middle of a later one.
func (r *row) promoteUntilKilled(kill func(), next int, after int64) {
	var promotions atomic.Int64
	enough := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for r.commitNumber("a", next) && r.commitNumber("b", next) && r.promoteAll() {
			next++
			if promotions.Add(1) == after {
				close(enough)
			}
		}
		if promotions.Load() < after {
			r.Error("the server stopped before it was killed")
			close(enough)
		}
	})
	<-enough
	kill()
	running.Wait()
}

// settlePair brings the policies back to the generation that was promoted last.
func (r *row) settlePair(promoted int) {
	r.servers["s1"] = r.serve(r.store)
	for _, id := range []string{"a", "b"} {
		r.do(fmt.Sprintf("DELETE $L/policies/%s/experiments/next?allowMissing=true\nOP\n", id) +
			fmt.Sprintf(`PATCH $L/policies/%s {"displayName":"%d"}`, id, promoted) + "\nOP Policy")
	}
}

// promotionCount counts the operations of promotions.
func (r *row) promotionCount() int {
	records, err := r.store.List(r.Context(), admin.Query{
		Collection: admin.Collection(r.path("$p/locations/l2/operations")),
	})
	if err != nil {
		r.Fatal(err)
	}
	count := 0
	for _, record := range records {
		if verbOf(r, decodeRow(r, record, &longrunningpb.Operation{})) == "promote" {
			count++
		}
	}
	return count
}
