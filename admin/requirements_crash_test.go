package admin_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/protobuf/proto"

	"understudy/admin"
	"understudy/admin/rest"
	adminpb "understudy/admin/v1"
	"understudy/cmd/testkit"
)

func init() {
	rows["L-18"] = func(r *row) { crash(r, begin(r), operationsMatchChanges) }
}

// serveEnv makes the test binary a server on the store that it names.
const serveEnv = "UNDERSTUDY_REQUIREMENTS_SERVE"

// TestRequirementsServe is the server that crash kills. It is started by crash, in
// a process of its own; as a test of its own it has nothing to do.
func TestRequirementsServe(t *testing.T) {
	address := os.Getenv(serveEnv)
	if address == "" {
		return
	}
	server, err := admin.NewServer(admin.Config{Store: openAddress(t, address, "", &clock{})})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := rest.New(rest.Config{Services: server})
	if err != nil {
		t.Fatal(err)
	}
	listening := httptest.NewServer(handler)
	fmt.Printf("listening %s\n", listening.URL)
	select {} // until the parent kills this process, or ends
}

// startChild starts a server in another process and lets s1 be it.
func (r *row) startChild() (kill func()) {
	child := exec.Command(os.Args[0], "-test.run=^TestRequirementsServe$")
	child.Env = append(os.Environ(), serveEnv+"="+r.store.address)
	url := testkit.StartUntil(r.T, child, "listening ")
	r.servers["s1"] = &httptest.Server{URL: url}
	return func() { testkit.Kill(child) }
}

// trySend is send for a server that may be killed: it returns nil if there is no
// whole answer.
func (r *row) trySend(method, target, body string) *apiResponse {
	var content *string
	if body != "" {
		content = &body
	}
	a, err := r.exchange(method, target, content)
	if err != nil {
		return nil
	}
	return a
}

// tryPoll gets the operation of an answer until it is done, and returns the last answer. It is nil if the server was
// killed meanwhile.
func (r *row) tryPoll(a *apiResponse) *apiResponse {
	name, _ := dig(a.decoded, ".name")
	testkit.Await(r, fmt.Sprintf("the operation %v is done", name), func() bool {
		if done, _ := dig(a.decoded, ".done"); done == true {
			return true
		}
		if a = r.trySend("GET", fmt.Sprintf("/v1/%v", name), ""); !r.served(a) {
			a = nil
		}
		return a == nil
	})
	return a
}

// crash kills a server again and again while it commits, and checks after each
// death what the store has.
func crash(r *row, g *generations, check func(r *row)) {
	for round := range 4 {
		r.store.release()
		kill := r.startChild()
		r.commitUntilKilled(g, kill, int64(3+2*round))
		r.store = openAddress(r.T, r.store.address, r.store.project, r.clock)
		check(r)
		live, experiments := r.generation()
		if r.Failed() || len(experiments) == 0 {
			r.Fatalf("after the death %d of the server: the live policy %d, the experiments %v", round+1, live, experiments)
		}
		r.resume(g, experiments)
	}
	r.servers["s1"] = r.serve(r.store)
}

// commitUntilKilled commits, and kills the server in the middle of a later commit.
func (r *row) commitUntilKilled(g *generations, kill func(), after int64) {
	var commits atomic.Int64
	enough := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for g.advance() {
			if commits.Add(1) == after {
				close(enough)
			}
		}
		if commits.Load() < after {
			r.Error("the server stopped before it was killed")
			close(enough)
		}
	})
	testkit.Closed(r, "enough changes", enough)
	kill()
	running.Wait()
}

// resume continues with what the store has: one experiment, or two if the server
// died between a create and the commit.
func (r *row) resume(g *generations, experiments []int) {
	g.next = 0
	for _, n := range experiments {
		g.next = max(g.next, n+1)
	}
	if len(experiments) == 1 {
		return
	}
	// Let the next advance find one experiment.
	r.servers["s1"] = r.serve(r.store)
	oldest := g.next - 2
	etag, _ := dig(g.read(oldest), ".etag")
	a := r.trySend("POST", r.path("$POL/experiments/"+experimentID(oldest)+":commit"), `{"etag":`+asJSON(etag)+`}`)
	if a == nil || a.status != http.StatusOK {
		r.Fatalf("committing %d: %+v", oldest, a)
	}
}

// commitsAreWhole checks that either both or neither of a commit's changes are
// there.
func commitsAreWhole(r *row) { r.checkWhole() }

// operationsMatchChanges counts the operations and the changes that they are of.
func operationsMatchChanges(r *row) {
	live, experiments := r.generation()
	records, err := r.store.List(r.Context(), admin.Query{
		Collection: admin.Collection(r.path("$l/operations")),
	})
	if err != nil {
		r.Fatal(err)
	}
	count := map[string]int{}
	for _, record := range records {
		op := decodeRow(r, record, &longrunningpb.Operation{})
		count[verbOf(r, op)]++
	}
	if count["commit"] != live {
		r.Errorf("%d operations of commits; the live policy is of generation %d", count["commit"], live)
	}
	// Two further creations are those of the fixture.
	if created := live + len(experiments); count["create"] != created+2 {
		r.Errorf("%d operations of creates for %d experiments", count["create"]-2, created)
	}
}

func verbOf(r *row, op *longrunningpb.Operation) string {
	m, err := op.Metadata.UnmarshalNew()
	if err != nil {
		r.Fatal(err)
	}
	switch m := m.(type) {
	case *adminpb.OperationMetadata:
		return m.Verb
	case interface {
		proto.Message
		GetOperation() *adminpb.OperationMetadata
	}:
		return m.GetOperation().GetVerb()
	default:
		return ""
	}
}
