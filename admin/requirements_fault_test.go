package admin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"understudy/admin"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// The rows in which something breaks.
func init() {
	rows["A-61"] = lostReply
	rows["A-64"] = plantBrokenExperiment
	rows["L-8"] = nodeKeepsLastGoodPolicy
	rows["E-2"] = storeErrorsAreMapped
	rows["E-10"] = loseStore
	rows["E-11"] = unavailableMeansUnchanged
}

// plant changes a stored resource behind the back of the API, as an earlier version
// may have left it, and notifies the sidecars.
func plant[M proto.Message](r *row, name string, m M, change func(M)) {
	r.Helper()
	records, err := r.store.Get(r.Context(), admin.Key(name))
	if err != nil {
		r.Fatal(err)
	}
	decodeRow(r, records[0], m)
	change(m)
	value, err := proto.Marshal(m)
	if err != nil {
		r.Fatal(err)
	}
	_, err = r.store.Commit(r.Context(), admin.Txn{
		ID: uuid.NewString(), Project: r.store.project,
		Conditions: []admin.Condition{admin.Exists{Key: admin.Key(name)}},
		Writes:     []admin.Write{admin.Put{Key: admin.Key(name), Value: value, Etag: records[0].Etag + "x"}},
		Events:     []admin.Event{{Location: r.location(), Policies: []authz.PolicyName{authz.PolicyName(r.path("$pol"))}}},
	})
	if err != nil {
		r.Fatal(err)
	}
}

var noRego = map[string]string{"authz.rego": "this is no Rego"}

func plantBrokenExperiment(r *row) {
	plant(r, r.path("$exp"), &adminpb.PolicyExperiment{}, func(e *adminpb.PolicyExperiment) {
		e.Policy.Modules, e.Etag = noRego, e.Etag+"x"
	})
}

// nodeKeepsLastGoodPolicy gives the sidecar n1 a policy that it cannot compile.
func nodeKeepsLastGoodPolicy(r *row) {
	// The operation ended with the peer's refusal; the sidecar may still be on its way.
	r.await("the sidecar follows", func() string { return r.unreported("n1") })
	r.do("TRAFFIC POST 200")
	plant(r, r.path("$pol"), &adminpb.Policy{}, func(p *adminpb.Policy) {
		p.Modules, p.Etag = noRego, p.Etag+"x"
	})
	var said string
	r.await("the node reports that it could not apply the policy", func() string {
		reports, err := r.store.Nodes(r.Context(), r.location())
		if err != nil {
			return err.Error()
		}
		for _, n := range reports {
			if strings.HasSuffix(n.Node.Name, "/n1") && n.Node.Error != nil {
				said = n.Node.Error.Message
				return ""
			}
		}
		return "there is no error yet"
	})
	if !strings.Contains(said, r.path("$pol")) {
		r.Errorf("the node says %q", said)
	}
	r.do("TRAFFIC POST 200")
}

// failingStore fails each read with an error.
type failingStore struct {
	stores
	err error
}

func (s failingStore) Get(context.Context, ...admin.Key) ([]admin.Record, error) { return nil, s.err }

func storeErrorsAreMapped(r *row) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{context.Canceled, "499 CANCELLED CANCELLED"},
		{context.DeadlineExceeded, "504 DEADLINE_EXCEEDED DEADLINE_EXCEEDED"},
		{admin.ErrUnavailable, "503 UNAVAILABLE STORE_UNAVAILABLE"},
		{admin.ErrOutcomeUnknown, "500 INTERNAL OUTCOME_UNKNOWN"},
		{errors.New("redis: LOADING dataset"), "500 INTERNAL INTERNAL"},
	} {
		failing := *r.store
		failing.stores = failingStore{r.store.stores, fmt.Errorf("reading: %w", test.err)}
		r.servers["failing"] = r.serve(&failing)
		r.do("via failing\nGET $POL\nerror " + test.want + "\nvia s1")
	}
}

// loseStore makes the store unreachable.
func loseStore(r *row) {
	if r.store.isFile() {
		r.store.release()
		return
	}
	p := r.viaProxy()
	p.close()
}

func lostReply(r *row) {
	commit := "GET $EXP\nE = .etag\nPOST $EXP:commit {\"etag\":$E}\nOP Empty"
	if r.store.isFile() {
		r.do(commit)
		return
	}
	// The functions have to be known to the server, so that the commit is one FCALL.
	p := r.viaProxy()
	r.do("PATCH $POL {\"displayName\":\"warm\"}\nOP Policy")
	p.arm(loseOnce)
	r.do(commit + "\nGET $POL\nabsent .displayName\nGET $EXP\nerror 404")
	p.wasLost(r)
}

// unavailableMeansUnchanged checks both sides: UNAVAILABLE means that nothing was
// stored, and what may have been stored is not called UNAVAILABLE.
func unavailableMeansUnchanged(r *row) {
	r.do("GET $POL\nLIVE = .etag\nGET $EXP\nE = .etag")
	if r.store.isFile() {
		r.store.release()
		r.do("POST $EXP:commit {\"etag\":$E}\nerror 503 UNAVAILABLE")
		r.store = openAddress(r.T, r.store.address, r.store.project, r.clock)
		r.servers["s1"] = r.serve(r.store)
		r.do("GET $POL\nis .etag $LIVE\nGET $EXP\nis .etag $E")
		return
	}
	direct := r.servers["s1"]
	p := r.viaProxy()
	r.do("GET $POL\nis .etag $LIVE")
	p.arm(loseForever)
	r.do("POST $EXP:commit {\"etag\":$E}\nerror 500 INTERNAL OUTCOME_UNKNOWN")
	p.wasLost(r)
	r.do("POST $EXP:startPreview {}\nerror 503 UNAVAILABLE")
	r.servers["s1"] = direct
	// The commit was made as a whole, or not at all.
	r.do("GET $POL\nNOW_LIVE = .")
	a := r.send("GET", r.path("$EXP"), nil)
	etag, _ := dig(r.variables["NOW_LIVE"], ".etag")
	if committed := etag != r.variables["LIVE"]; committed != (a.status == http.StatusNotFound) {
		r.Errorf("the live policy changed: %v, and the experiment answers %d", committed, a.status)
	}
}
