package admin_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	"understudy/admin"
	adminpb "understudy/admin/v1"
	"understudy/cmd/testkit"
)

// The rows that hold however calls race each other.
func init() {
	rows["A-11"] = createsRaceForTheCap
	rows["A-13"] = createRacesDelete
	rows["A-52"] = func(r *row) { crash(r, commitsUnderReaders(r), commitsAreWhole) }
	rows["A-56"] = commitRacesChanges
	rows["A-60"] = commitsRace
	rows["A-73"] = policyChangesUnderLoad
	rows["L-13"] = waitReturnsOnceDone
	rows["L-16"] = updatesRace
}

// path expands the variables in a path, for calls from Go.
func (r *row) path(text string) string { return r.expand(text, plain) }

// post is a POST with a JSON body, safe for concurrent use.
func (r *row) post(target, body string) *apiResponse { return r.send("POST", target, &body) }

// statusCounts counts the answers by status.
func statusCounts(answers []*apiResponse) map[int]int {
	counts := map[int]int{}
	for _, a := range answers {
		counts[a.status]++
	}
	return counts
}

// together makes calls at the same time and returns their answers in order.
func together(calls ...func() *apiResponse) []*apiResponse {
	answers := make([]*apiResponse, len(calls))
	start := make(chan struct{})
	var running sync.WaitGroup
	for i, call := range calls {
		running.Go(func() { <-start; answers[i] = call() })
	}
	close(start)
	running.Wait()
	return answers
}

func createsRaceForTheCap(r *row) {
	var creates []func() *apiResponse
	for i := range 20 {
		target := r.path(fmt.Sprintf("$POL/experiments?policyExperimentId=racer-%d", i))
		body := r.body(`{"policy":{"name":"$pol"}}`)
		creates = append(creates, func() *apiResponse { return r.post(target, body) })
	}
	if counts := statusCounts(together(creates...)); counts[http.StatusOK] != 10 || counts[http.StatusTooManyRequests] != 10 {
		r.Errorf("of 20 creates: %v", counts)
	}
}

// createRacesDelete lets a create and a delete of its policy race. Anyone who is
// first, the deleted policy has no experiment.
func createRacesDelete(r *row) {
	r.do(baseFixture["policy"])
	body := r.body(`{"policy":{"name":"$pol"}}`)
	create, remove := r.path("$POL/experiments?policyExperimentId=racer"), r.path("$POL")
	for i := range testkit.Cases(200) {
		answers := together(
			func() *apiResponse { return r.post(create, body) },
			func() *apiResponse { return r.send("DELETE", remove, nil) },
		)
		if s := answers[0].status; s != http.StatusOK && s != http.StatusBadRequest {
			r.Fatalf("round %d: the create answers %d: %s", i, s, answers[0].body)
		}
		if answers[1].status != http.StatusOK {
			r.Fatalf("round %d: the delete answers %d: %s", i, answers[1].status, answers[1].body)
		}
		r.do("GET $L/policies/-/experiments\ncount .policyExperiments 0\nPOST $POL:undelete {}")
	}
}

func commitsRace(r *row) {
	r.do("DELETE $EXP\nOP PolicyExperiment")
	for i := range testkit.Cases(50) {
		r.do(fmt.Sprintf(`POST $POL/experiments?policyExperimentId=e1 {"policy":{"name":"$pol","displayName":"%d"}}`, i) +
			"\nOP PolicyExperiment\nE = .etag")
		target, body := r.path("$EXP:commit"), r.body(`{"etag":$E}`)
		commit := func() *apiResponse { return r.post(target, body) }
		if counts := statusCounts(together(commit, commit)); counts[http.StatusOK] != 1 || counts[http.StatusNotFound] != 1 {
			r.Fatalf("round %d: of two commits: %v", i, counts)
		}
	}
}

// commitRacesChanges lets a commit race an update and a deletion of its experiment:
// one of both succeeds, so nobody commits a version that he has not seen.
func commitRacesChanges(r *row) {
	for i := range testkit.Cases(40) {
		r.do(fmt.Sprintf(`POST $POL/experiments?policyExperimentId=racer {"policy":{"name":"$pol","displayName":"%d"}}`, i) +
			"\nOP PolicyExperiment\nE = .etag")
		target, commit := r.path("$POL/experiments/racer"), r.body(`{"etag":$E}`)
		change := func() *apiResponse { return r.send("DELETE", target, nil) }
		if i%2 == 0 {
			update := `{"displayName":"changed"}`
			change = func() *apiResponse { return r.send("PATCH", target, &update) }
		}
		answers := together(func() *apiResponse { return r.post(target+":commit", commit) }, change)
		if counts := statusCounts(answers); counts[http.StatusOK] != 1 {
			r.Fatalf("round %d: %v of a commit and a change: %s %s", i, counts, answers[0].body, answers[1].body)
		}
		r.do("DELETE $POL/experiments/racer?allowMissing=true")
	}
}

// generations commits experiments one after the other. Experiment n makes the live
// policy's display name n. Experiment n+1 is created before n is committed, so at
// any time the oldest experiment is the successor of the live policy.
type generations struct {
	r *row
	// next is the number of the next experiment to be created.
	next int
}

// begin brings the policy to generation 0, with the experiment 1.
func begin(r *row) *generations {
	g := &generations{r: r, next: 1}
	r.do("DELETE $EXP\nOP PolicyExperiment\n" +
		`PATCH $POL?updateMask=* {"displayName":"0"}` + "\nOP Policy")
	if a := g.create(); a == nil || a.status != http.StatusOK {
		r.Fatalf("creating the first experiment: %v", a)
	}
	return g
}

// experimentID cycles, so that an ID is used again.
func experimentID(n int) string { return "gen-" + strconv.Itoa(n%3) }

func (g *generations) create() *apiResponse {
	a := g.r.trySend("POST", g.r.path("$POL/experiments?policyExperimentId="+experimentID(g.next)),
		g.r.body(fmt.Sprintf(`{"policy":{"name":"$pol","displayName":"%d"}}`, g.next)))
	if a != nil && a.status == http.StatusOK {
		g.next++
	}
	return a
}

// advance creates an experiment and commits the one before it. It returns false if
// the server went away.
func (g *generations) advance() bool {
	a := g.create()
	if a == nil {
		return false
	}
	etag, _ := dig(g.read(g.next-2), ".etag")
	if a.status != http.StatusOK || etag == nil {
		return g.gone(a)
	}
	a = g.r.trySend("POST", g.r.path("$POL/experiments/"+experimentID(g.next-2)+":commit"), `{"etag":`+asJSON(etag)+`}`)
	return a != nil && (a.status == http.StatusOK || g.gone(a))
}

func (g *generations) read(n int) any {
	a := g.r.trySend("GET", g.r.path("$POL/experiments/"+experimentID(n)), "")
	if a == nil {
		return nil
	}
	return a.decoded
}

// gone reports an answer that a living server must not give.
func (g *generations) gone(a *apiResponse) bool {
	if a.status != http.StatusOK {
		g.r.Errorf("%s: %d %s", a.request, a.status, a.body)
	}
	return false
}

// generation reads the live policy and the experiments at one instant, and returns
// the generation of the policy and those of the experiments.
func (r *row) generation() (live int, experiments []int) {
	policy := admin.Key(r.path("$pol"))
	keys := []admin.Key{policy}
	for n := range 3 {
		keys = append(keys, policy+"/experiments/"+admin.Key(experimentID(n)))
	}
	records, err := r.store.Get(r.Context(), keys...)
	if err != nil {
		r.Errorf("reading: %v", err)
		return 0, nil
	}
	live, _ = strconv.Atoi(decodeRow(r, records[0], &adminpb.Policy{}).DisplayName)
	for _, record := range records[1:] {
		if record.Key != "" {
			n, _ := strconv.Atoi(decodeRow(r, record, &adminpb.PolicyExperiment{}).GetPolicy().GetDisplayName())
			experiments = append(experiments, n)
		}
	}
	return live, experiments
}

func decodeRow[M proto.Message](r *row, record admin.Record, m M) M {
	if err := proto.Unmarshal(record.Value, m); err != nil {
		r.Errorf("decoding %s: %v", record.Key, err)
	}
	return m
}

// checkWhole checks that no commit is seen by half: the live policy of generation n
// comes with the experiment n+1 and without the experiment n.
func (r *row) checkWhole() {
	live, experiments := r.generation()
	oldest := 1 << 30
	for _, n := range experiments {
		oldest = min(oldest, n)
	}
	if len(experiments) == 0 || oldest != live+1 {
		r.Errorf("the live policy %d is seen with the experiments %v", live, experiments)
	}
}

// commitsUnderReaders makes many commits while a reader looks at each of them.
func commitsUnderReaders(r *row) *generations {
	commits := testkit.Cases(500)
	g := begin(r)
	for range commits {
		var reader sync.WaitGroup
		reader.Go(func() {
			for range 8 {
				r.checkWhole()
			}
		})
		advanced := g.advance()
		reader.Wait()
		if !advanced || r.Failed() {
			break
		}
	}
	if live, _ := r.generation(); live != commits {
		r.Errorf("after %d commits the live policy is of generation %d", commits, live)
	}
	return g
}

// policyChangesUnderLoad sends requests while the live policy changes to and fro.
func policyChangesUnderLoad(r *row) {
	result := map[any]string{r.variables["LIVE"]: "DENY"}
	const changes, senders, each = 20, 4, 50
	var running sync.WaitGroup
	for range senders {
		running.Go(func() {
			for range each {
				r.ask(r.nodes["n1"].check, checks{method: "POST", path: "/x"})
			}
		})
	}
	for i := range changes {
		rules, decision := "RULES_B", "ALLOW"
		if i%2 == 1 {
			rules, decision = "RULES_A", "DENY"
		}
		r.do("PATCH $POL?updateMask=rules,modules {\"rules\":" + rules + "}\nOP Policy\nNEW = .etag")
		result[r.variables["NEW"]] = decision
	}
	running.Wait()
	r.expectLogs(fmt.Sprintf("e1 %d", senders*each+1))
	for _, record := range r.receiver.of("e1") {
		etag, _ := dig(record, ".body.policy_etag")
		if got, _ := dig(record, ".body.policy_result"); got != result[etag] {
			r.Fatalf("the record pairs the etag %v with %v: %s", etag, got, asJSON(record))
		}
	}
	if len(result) != 2 {
		r.Errorf("the policy had the etags %v", result)
	}
}

// waitReturnsOnceDone lets calls wait for longer than the test would, and sets the
// node free.
func waitReturnsOnceDone(r *row) {
	target, body := r.path("/v1/$PENDING:wait"), `{"timeout":"60s"}`
	wait := func() *apiResponse { return r.post(target, body) }
	release := func() *apiResponse { r.peer("n2 follows"); return nil }
	answers := together(wait, wait, wait, wait, wait, wait, wait, release)[:7]
	for _, a := range answers {
		if !strings.Contains(a.body, `"done":true`) {
			r.Errorf("a wait returned %s", a.body)
		}
		if a.body != answers[0].body {
			r.Errorf("two waits returned\n%s\n%s", answers[0].body, a.body)
		}
		r.answer, r.document = a, a.decoded
	}
}

func updatesRace(r *row) {
	for i := range 20 {
		var calls []func() *apiResponse
		for _, side := range []string{"a", "b"} {
			body := fmt.Sprintf(`{"displayName":"%s-%d"}`, side, i)
			target := r.path("$POL?updateMask=displayName")
			calls = append(calls, func() *apiResponse { return r.send("PATCH", target, &body) })
		}
		counts := statusCounts(together(calls...))
		if counts[http.StatusOK]+counts[http.StatusConflict] != 2 || counts[http.StatusOK] == 0 {
			r.Fatalf("round %d: of two updates: %v", i, counts)
		}
		r.do(fmt.Sprintf("GET $POL\nmatches .displayName ^[ab]-%d$", i))
	}
}
