package policyfile_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	adminpb "understudy/admin/v1"
	"understudy/cmd/testkit"
)

// linearGroups are the groups of a history; the first is promoted to the second.
var linearGroups = [2]string{"dev", "qa"}

// another is an active revision that is none of the locks.
const another = 9

// linearLocks is the number of revisions of the policy in a history.
const linearLocks = 3

// linearCall is one call of a history: of a method, about a group and a revision.
type linearCall struct {
	method          string
	group, revision int
}

// linearState is the model: which revisions have a document, whether the policy's
// name is there, and of each group whether it is there and what is active in it, from
// 1; 0 is nothing, and another is what the other API made live.
type linearState struct {
	documents [linearLocks]bool
	name      bool
	exists    [2]bool
	active    [2]int
	next      bool
}

func (s linearState) isActive(revision int) bool {
	return s.active[0] == revision+1 || s.active[1] == revision+1
}

// step is the specification: what a call answers in a state, and the state that it
// leaves. It takes documents, what is active, and groups each by themselves.
func (s linearState) step(c linearCall) (string, linearState) {
	switch c.method {
	case "add", "read revision", "remove revision", "remove policy":
		return s.stepDocument(c)
	case "put", "activate", "read", "update", "deactivate":
		return s.stepActive(c)
	default:
		return s.stepGroup(c)
	}
}

// put makes a document active in a group. Both are there from then on.
func (s linearState) put(c linearCall) (string, linearState) {
	active, status := &s.active[c.group], "200"
	if *active == 0 {
		status = "201"
	}
	*active, s.exists[c.group], s.name, s.documents[c.revision] = c.revision+1, true, true, true
	return status, s
}

// stepDocument is step of the calls about documents, and the name that they are under.
func (s linearState) stepDocument(c linearCall) (string, linearState) {
	known := s.documents[c.revision]
	switch c.method {
	case "add":
		if known {
			return "409", s
		}
		s.documents[c.revision], s.name = true, true
		return "201", s
	case "read revision":
		if known {
			return "200", s
		}
		return "404", s
	case "remove revision":
		switch {
		case !known:
			return "404", s
		case s.isActive(c.revision):
			return "409", s
		}
		s.documents[c.revision] = false
		return "200", s
	default: // remove policy
		if !s.name && s.active == [2]int{} {
			return "404", s
		}
		had := s.documents
		s.documents, s.name, s.active = [linearLocks]bool{}, false, [2]int{}
		return fmt.Sprint("200 ", had), s
	}
}

// stepActive is step of the calls about what is active in a group.
func (s linearState) stepActive(c linearCall) (string, linearState) {
	active := &s.active[c.group]
	switch c.method {
	case "put":
		return s.put(c)
	case "activate":
		if s.documents[c.revision] {
			return s.put(c)
		}
		return "404", s
	case "read":
		if *active == 0 {
			return "404", s
		}
		return fmt.Sprint("200 ", *active), s
	case "update":
		if *active == 0 {
			return "refused", s
		}
		*active = another
		return "200", s
	default: // deactivate
		if *active == 0 {
			return "404", s
		}
		was := *active
		*active = 0
		return fmt.Sprint("200 ", was), s
	}
}

// stepGroup is step of the calls about groups, and promotions from the first to the second.
func (s linearState) stepGroup(c linearCall) (string, linearState) {
	active := &s.active[c.group]
	switch c.method {
	case "read group":
		if !s.exists[c.group] {
			return "404", s
		}
		return fmt.Sprint("200 ", *active), s
	case "remove group":
		if !s.exists[c.group] {
			return "404", s
		}
		s.exists[c.group], *active = false, 0
		s.next = s.next && c.group != 0
		return "200", s
	case "set group":
		status := "200"
		if !s.exists[0] {
			status = "201"
		}
		s.exists[0], s.next = true, true
		return status, s
	default: // promote
		if !s.next {
			return "refused", s
		}
		s.exists[1] = true
		if s.active[0] != 0 {
			s.active[1] = s.active[0]
		}
		return "200", s
	}
}

var linearModel = porcupine.Model{
	Init: func() any { return linearState{} },
	Step: func(state, input, output any) (bool, any) {
		result, after := state.(linearState).step(input.(linearCall))
		return result == output.(string), after
	},
}

// TestHistoriesHaveOneOrder makes random calls at the same time and checks that the
// answers fit some order of the calls: each takes effect at one instant between its
// beginning and its end.
func TestHistoriesHaveOneOrder(t *testing.T) {
	const clients, calls = 4, 60
	for _, b := range backends(t) {
		for seed := range uint64(4) {
			t.Run(fmt.Sprintf("%s/%d", b.name, seed), func(t *testing.T) {
				t.Parallel()
				h := &history{server: serve(t, b.open(t), fmt.Sprintf("p-history-%d", seed), false), begin: time.Now()}
				for n := range linearLocks {
					h.locks = append(h.locks, version(t, "web", n))
				}
				var running sync.WaitGroup
				for client := range clients {
					random := rand.New(rand.NewPCG(seed, uint64(client)))
					running.Go(func() {
						for range calls {
							h.record(client, choose(random))
						}
					})
				}
				running.Wait()
				if result := porcupine.CheckOperationsTimeout(linearModel, h.calls, testkit.Patience); result != porcupine.Ok {
					t.Errorf("the history of %d calls is %s", len(h.calls), result)
				}
			})
		}
	}
}

// history is the calls of some clients.
type history struct {
	*server
	locks []string
	// updates numbers what the other API makes live.
	updates atomic.Int64
	begin   time.Time

	mu    sync.Mutex
	calls []porcupine.Operation
}

// methods are what clients call, the more often the more often it stands there.
var methods = strings.Split("add,put,put,activate,activate,activate,read,read,read group,read group,read revision,"+
	"update,update,deactivate,remove revision,remove revision,remove policy,remove group,set group,set group,promote,promote", ",")

func choose(random *rand.Rand) linearCall {
	return linearCall{methods[random.IntN(len(methods))], random.IntN(2), random.IntN(linearLocks)}
}

// record makes a call and notes when it began and ended.
func (h *history) record(client int, c linearCall) {
	from := int64(time.Since(h.begin))
	result := h.make(c)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, porcupine.Operation{
		ClientId: client, Input: c, Call: from, Output: result, Return: int64(time.Since(h.begin)),
	})
}

func (h *history) make(c linearCall) string {
	lock := h.locks[c.revision]
	group, id := "/policy_groups/"+linearGroups[c.group], idOf(h.T, lock)
	switch c.method {
	case "add":
		return h.status(h.call("POST", "/policies/web/revisions", lock))
	case "put":
		return h.status(h.call("PUT", group+"/policies/web", lock))
	case "activate":
		return h.status(h.call("POST", group+"/policies/web", `{"revision_id":"`+id+`"}`))
	case "read":
		return h.seen(h.call("GET", group+"/policies/web", ""))
	case "read group":
		return h.seenIn(h.call("GET", group, ""))
	case "read revision":
		return h.status(h.call("GET", "/policies/web/revisions/"+id, ""))
	case "update":
		return h.update(linearGroups[c.group])
	case "deactivate":
		return h.seen(h.call("DELETE", group+"/policies/web", ""))
	case "remove revision":
		return h.status(h.call("DELETE", "/policies/web/revisions/"+id, ""))
	case "remove policy":
		return h.removed(h.call("DELETE", "/policies/web", ""))
	case "remove group":
		return h.status(h.call("DELETE", group, ""))
	case "set group":
		return h.status(h.call("PUT", "/policy_groups/dev", `{"next_group_name":"qa"}`))
	default:
		a := h.call("POST", "/policy_groups/dev/promote", "{}")
		if a.status == 400 || a.status == 404 || a.status == 409 {
			return "refused"
		}
		return h.status(a)
	}
}

// update changes the live policy of a group by the other API.
func (h *history) update(group string) string {
	_, err := h.admin.UpdatePolicy(h.Context(), &adminpb.UpdatePolicyRequest{Policy: &adminpb.Policy{
		Name:        "projects/" + h.project + "/locations/" + group + "/policies/web",
		DisplayName: fmt.Sprint("update ", h.updates.Add(1)),
	}})
	switch status.Code(err) {
	case codes.OK:
		return "200"
	case codes.NotFound, codes.FailedPrecondition:
		return "refused"
	}
	return err.Error()
}

func (h *history) status(a apiResponse) string { return fmt.Sprint(a.status) }

// seen is the status with the number of the lock in the answer, which is bytewise that.
func (h *history) seen(a apiResponse) string {
	if a.status != 200 {
		return h.status(a)
	}
	for n, lock := range h.locks {
		if lock == string(a.body) {
			return fmt.Sprint("200 ", n+1)
		}
	}
	return fmt.Sprint("200 ", another)
}

func (h *history) seenIn(a apiResponse) string {
	var g struct {
		Policies map[string]map[string]string `json:"policies"`
	}
	if a.status != 200 || json.Unmarshal(a.body, &g) != nil {
		return h.status(a)
	}
	for n, lock := range h.locks {
		if g.Policies["web"]["revision_id"] == idOf(h.T, lock) {
			return fmt.Sprint("200 ", n+1)
		}
	}
	if len(g.Policies) > 0 {
		return fmt.Sprint("200 ", another)
	}
	return "200 0"
}

func (h *history) removed(a apiResponse) string {
	var p struct {
		Revisions map[string]any `json:"revisions"`
	}
	if a.status != 200 || json.Unmarshal(a.body, &p) != nil {
		return h.status(a)
	}
	var had [linearLocks]bool
	for n, lock := range h.locks {
		_, had[n] = p.Revisions[idOf(h.T, lock)]
	}
	return fmt.Sprint("200 ", had)
}
