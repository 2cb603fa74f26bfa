package admin_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"

	"understudy/admin"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/testkit"
)

// The rows about revisions and promotion that a script would say badly.
func init() {
	rows["B-111b"] = revisionsAreTrimmed
	rows["B-115"] = updatesRaceForACircle
	rows["P-1"] = promotedRevisionHasItsID
	rows["P-2"] = promotionsAreBounded
	rows["P-9"] = promotionsAreWhole
	rows["P-13"] = requiredOfAPromotionMeanwhile
	rows["P-10"] = promotionsSurviveDeath
}

// promote is `PROMOTE $l web api`.
func (r *row) promote(rest string) {
	r.expectSuccess()
	fields := strings.Fields(r.expand(rest, plain))
	from, validateOnly := strings.CutSuffix(fields[0], "?validateOnly=true")
	if r.answer = r.tryPromote(from, validateOnly, fields[1:]...); r.answer == nil {
		r.fatalf("the server is gone")
	}
	r.document = r.answer.decoded
}

// tryPromote promotes policies as they are now, all that are live if none are named. It returns
// nil if the server is gone, and is safe for concurrent use.
func (r *row) tryPromote(from string, validateOnly bool, ids ...string) *apiResponse {
	config := r.trySend("GET", "/v1/"+from+"/config", "")
	if config == nil {
		return nil
	}
	next, _ := dig(config.decoded, ".nextLocation")
	sources, targets := r.trySend("GET", "/v1/"+from+"/policies?pageSize=1000", ""), r.trySend("GET", fmt.Sprint("/v1/", next, "/policies?pageSize=1000&showDeleted=true"), "")
	if sources == nil || targets == nil {
		return nil
	}
	etags := map[string]any{}
	for _, target := range policiesOf(targets) {
		etags[lastSegment(fmt.Sprint(target["name"]))] = target["etag"]
	}
	policies := []map[string]any{}
	for _, source := range policiesOf(sources) {
		if id := lastSegment(fmt.Sprint(source["name"])); len(ids) == 0 || slices.Contains(ids, id) {
			policies = append(policies, map[string]any{"revision": source["revision"], "targetEtag": etags[id]})
		}
	}
	return r.trySend("POST", "/v1/"+from+"/policies:promote", asJSON(map[string]any{
		"destination": next, "policies": policies, "validateOnly": validateOnly,
	}))
}

// policiesOf are the policies of a list.
func policiesOf(a *apiResponse) (out []map[string]any) {
	list, _ := dig(a.decoded, ".policies")
	items, _ := list.([]any)
	for _, item := range items {
		policy, _ := item.(map[string]any)
		out = append(out, policy)
	}
	return out
}

// promotionsAreBounded: one call takes so many policies, and no more.
func promotionsAreBounded(r *row) {
	const most = 1000
	policies := []map[string]string{{"revision": r.policyAt("$pol").Revision}}
	for n := len(policies); n < most; n++ {
		policies = append(policies, map[string]string{"revision": r.path(fmt.Sprintf("$l/policies/p%d/revisions/x", n))})
	}
	promote := func() string {
		_, reason := flatten(r.post(r.path("$L/policies:promote"), asJSON(map[string]any{
			"destination": r.path("$p/locations/l2"), "policies": policies,
		})).decoded)
		return reason
	}
	if reason := promote(); reason != "RESOURCE_NOT_FOUND" {
		r.Errorf("%d policies are refused for %s", len(policies), reason)
	}
	policies = append(policies, map[string]string{"revision": r.path("$l/policies/one-more/revisions/x")})
	if reason := promote(); reason != "INVALID_FIELD" {
		r.Errorf("%d policies are refused for %s", len(policies), reason)
	}
}

// requiredOfAPromotionMeanwhile changes what a promotion was judged by, after it was read.
func requiredOfAPromotionMeanwhile(r *row) {
	for _, c := range []struct{ method, path, body, want string }{
		{"PATCH", "$L/config", `{"commitRequirements":{"minRequestCount":11}}`, "400 FAILED_PRECONDITION REQUIREMENTS_NOT_MET"},
		{"PATCH", "$EXP?updateMask=policy", `{"policy":{"name":"$pol","rules":RULES_B}}`, "400 FAILED_PRECONDITION REQUIREMENTS_NOT_MET"},
		{"PATCH", "$POL", `{"displayName":"hotter fix"}`, "409 ABORTED ETAG_MISMATCH"},
		{"PATCH", "$P/locations/l0/policies/web", `{"displayName":"newer"}`, "409 ABORTED REVISION_NOT_LIVE"},
	} {
		r.do(`PATCH $EXP?updateMask=policy {"policy":{"name":"$pol","displayName":"web","rules":RULES_B}}` + "\nOP\n" +
			`PATCH $L/config {"commitRequirements":{"minRequestCount":10}}`)
		r.publish("n1", requests(10))
		r.hooked(func() { r.post2xx(c.method, r.path(c.path), r.body(c.body)) })
		r.do("via hooked\nPROMOTE $p/locations/l0 web\nerror " + c.want + "\nvia s1")
	}
	if name := r.policyAt("$pol").DisplayName; name != "hotter fix" {
		r.Errorf("what is live is %q", name)
	}
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
		`POST $L/policies?policyId=b {"displayName":"0"}` + "\nOP Policy\nPROMOTE $l\nOP")
}

// commitNumber makes a policy's number live by a commit.
func (r *row) commitNumber(id string, n int) bool {
	parent := r.path("$L/policies/" + id)
	a := r.trySend("POST", parent+"/experiments?policyExperimentId=next",
		r.body(fmt.Sprintf(`{"policy":{"name":"$l/policies/%s","displayName":"%d"}}`, id, n)))
	if a == nil || a.status != http.StatusOK {
		return r.served(a)
	}
	if a = r.tryPoll(a); a == nil {
		return false
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

// promoteAll promotes what it sees. If some of that has changed meanwhile, nothing was promoted.
func (r *row) promoteAll() bool {
	a := r.tryPromote(r.path("$l"), false)
	return a != nil && a.status == http.StatusConflict || r.served(a)
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
	update, err := r.store.Load(r.Context(), authz.Scope{Location: l2})
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
	count := max(10, testkit.Cases(30))
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
		r.restorePair(p.a)
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
	testkit.Closed(r, "enough changes", enough)
	kill()
	running.Wait()
}

// restorePair brings the policies back to the generation that was promoted last.
func (r *row) restorePair(promoted int) {
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
