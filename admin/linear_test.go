package admin_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"understudy/admin"
	adminpb "understudy/admin/v1"
	"understudy/cmd/testkit"
)

// linearCall is one call of a history.
type linearCall struct {
	method string
	// experiment is 0 or 1: the one that the call is about.
	experiment int
	// content is what a create or an update writes: a text that no other call
	// writes, so that an etag stands for it. For a rollback it is what the revision
	// has, which was live once.
	content string
	// basis is the content whose etag the caller sends; empty for no etag. A promotion sends the
	// revision of content, and basis is what it was seen to replace.
	basis string
}

// linearResult is what a call answered: its code and, for a read, what it saw.
type linearResult struct {
	code codes.Code
	seen string
}

// linearState is the model: a live policy, what of it is in the next location, and
// two experiments. What has no content does not exist.
type linearState struct {
	live        string
	deleted     bool
	promoted    linearPolicy
	experiments [2]linearExperiment
}

// linearPolicy is the policy in the next location.
type linearPolicy struct {
	content string
	deleted bool
}

type linearExperiment struct {
	content string
	state   adminpb.PolicyPreviewMetadata_State
}

func (e linearExperiment) String() string { return e.content + " " + e.state.String() }

// next is the specification: what a call answers in a state, and the state that it
// leaves. It takes each resource by itself.
func (s linearState) next(c linearCall) (linearResult, linearState) {
	switch c.method {
	case "read policy", "rollback", "delete policy", "undelete":
		return s.nextPolicy(c)
	case "read promoted", "promote", "delete promoted", "undelete promoted":
		return s.nextPromoted(c)
	default:
		return s.nextExperiment(c)
	}
}

// failed is a call that changes nothing.
func (s linearState) failed(code codes.Code) (linearResult, linearState) {
	return linearResult{code: code}, s
}

// nextPolicy is next of the calls about the live policy.
func (s linearState) nextPolicy(c linearCall) (linearResult, linearState) {
	switch c.method {
	case "read policy":
		return linearResult{seen: fmt.Sprint(s.live, s.deleted)}, s
	case "rollback":
		if s.deleted {
			return s.failed(codes.FailedPrecondition)
		}
		s.live = c.content
	case "delete policy":
		if s.deleted {
			return s.failed(codes.NotFound)
		}
		s.deleted, s.experiments = true, [2]linearExperiment{}
	case "undelete":
		if !s.deleted {
			return s.failed(codes.AlreadyExists)
		}
		s.deleted = false
	}
	return linearResult{}, s
}

// nextPromoted is next of the calls about the policy in the next location.
func (s linearState) nextPromoted(c linearCall) (linearResult, linearState) {
	switch c.method {
	case "read promoted":
		if s.promoted.content == "" {
			return s.failed(codes.NotFound)
		}
		return linearResult{seen: fmt.Sprint(s.promoted.content, s.promoted.deleted)}, s
	case "promote":
		switch {
		case s.deleted:
			return s.failed(codes.FailedPrecondition)
		case s.live != c.content:
			return s.failed(codes.Aborted)
		case s.promoted.deleted:
			return s.failed(codes.FailedPrecondition)
		case s.promoted.content != c.basis:
			return s.failed(codes.Aborted)
		}
		s.promoted.content = s.live
	case "delete promoted":
		if s.promoted.content == "" || s.promoted.deleted {
			return s.failed(codes.NotFound)
		}
		s.promoted.deleted = true
	case "undelete promoted":
		if s.promoted.content == "" {
			return s.failed(codes.NotFound)
		}
		if !s.promoted.deleted {
			return s.failed(codes.AlreadyExists)
		}
		s.promoted.deleted = false
	}
	return linearResult{}, s
}

// nextExperiment is next of the calls about an experiment of the live policy.
func (s linearState) nextExperiment(c linearCall) (linearResult, linearState) {
	e := &s.experiments[c.experiment]
	switch c.method {
	case "update", "start", "stop", "commit", "delete":
		if e.content == "" {
			return s.failed(codes.NotFound)
		}
		if c.basis != "" && c.basis != e.content {
			return s.failed(codes.Aborted)
		}
	}
	switch c.method {
	case "read":
		if e.content == "" {
			return s.failed(codes.NotFound)
		}
		return linearResult{seen: e.String()}, s
	case "create":
		if s.deleted {
			return s.failed(codes.FailedPrecondition)
		}
		if e.content != "" {
			return s.failed(codes.AlreadyExists)
		}
		*e = linearExperiment{content: c.content}
	case "update":
		if e.state == adminpb.PolicyPreviewMetadata_ACTIVE {
			e.state = adminpb.PolicyPreviewMetadata_SUSPENDED
		}
		e.content = c.content
	case "start":
		e.state = adminpb.PolicyPreviewMetadata_ACTIVE
	case "stop":
		if e.state == adminpb.PolicyPreviewMetadata_STATE_UNDEFINED {
			return s.failed(codes.FailedPrecondition)
		}
		e.state = adminpb.PolicyPreviewMetadata_SUSPENDED
	case "commit":
		s.live, *e = e.content, linearExperiment{}
	case "delete":
		*e = linearExperiment{}
	}
	return linearResult{}, s
}

var linearModel = porcupine.Model{
	Init: func() any { return linearState{live: "first"} },
	Step: func(state, input, output any) (bool, any) {
		result, after := state.(linearState).next(input.(linearCall))
		return result == output.(linearResult), after
	},
}

// TestHistoriesHaveOneOrder makes random calls at the same time and checks that the
// answers fit some order of the calls: each takes effect at one instant between its
// beginning and its end.
func TestHistoriesHaveOneOrder(t *testing.T) {
	t.Parallel()
	for _, b := range backends(t) {
		for seed := range uint64(4) {
			t.Run(fmt.Sprintf("%s/%d", b.name, seed), func(t *testing.T) {
				t.Parallel()
				history := newHistory(t, b, seed).run()
				if result := porcupine.CheckOperationsTimeout(linearModel, history, testkit.Patience); result != porcupine.Ok {
					t.Errorf("the history of %d calls is %s; their answers are %v", len(history), result, answers(history))
				}
			})
		}
	}
}

// answers counts the codes of a history: an answer that no order explains may be that of a store that was too slow.
func answers(history []porcupine.Operation) map[codes.Code]int {
	n := make(map[codes.Code]int)
	for _, call := range history {
		n[call.Output.(linearResult).code]++
	}
	return n
}

const (
	linearClients = 4
	linearCalls   = 60
)

// history is the calls of some clients to one policy.
type history struct {
	*testing.T
	server *admin.Server
	// promoted is the name of the policy in the next location.
	location, next, policy, promoted string
	seed                             uint64
	// contents numbers what is written.
	contents atomic.Int64

	mu    sync.Mutex
	calls []porcupine.Operation
}

func newHistory(t *testing.T, b backend, seed uint64) *history {
	t.Helper()
	project := "h-" + strconv.FormatUint(seed, 10)
	server, err := admin.NewServer(admin.Config{Store: b.open(t, project, &clock{})})
	if err != nil {
		t.Fatal(err)
	}
	parent := "projects/" + project + "/locations/l1"
	if _, err := server.CreatePolicy(t.Context(), &adminpb.CreatePolicyRequest{
		Parent: parent, PolicyId: "web", Policy: &adminpb.Policy{DisplayName: "first"},
	}); err != nil {
		t.Fatal(err)
	}
	next := "projects/" + project + "/locations/l2"
	if _, err := server.UpdateConfig(t.Context(), &adminpb.UpdateConfigRequest{
		Config: &adminpb.Config{Name: parent + "/config", NextLocation: next},
	}); err != nil {
		t.Fatal(err)
	}
	return &history{
		T: t, server: server, seed: seed, location: parent, next: next, policy: parent + "/policies/web", promoted: next + "/policies/web",
	}
}

func (h *history) run() []porcupine.Operation {
	var clients sync.WaitGroup
	begin := time.Now()
	for i := range linearClients {
		clients.Go(func() {
			c := &linearClient{history: h, random: rand.New(rand.NewPCG(h.seed, uint64(i)))}
			for range linearCalls {
				call := c.choose()
				from := time.Since(begin)
				result := c.make(call)
				h.mu.Lock()
				h.calls = append(h.calls, porcupine.Operation{
					ClientId: i, Input: call, Call: int64(from), Output: result, Return: int64(time.Since(begin)),
				})
				h.mu.Unlock()
			}
		})
	}
	clients.Wait()
	return h.calls
}

// linearClient is one caller. It knows the experiments as it last read them.
type linearClient struct {
	*history
	random *rand.Rand
	known  [2]struct{ content, etag string }
	// revision is one of the policy that the client saw live.
	revision struct{ content, name string }
	// seen are the versions that the client last saw on both sides of a promotion.
	seen struct {
		source, target struct{ content, version string }
	}
}

// methods are what clients call, the more often the more often it stands there.
var methods = []string{
	"read", "read", "read", "read policy", "create", "create", "create", "update", "start", "start", "stop",
	"commit", "commit", "delete", "delete policy", "undelete", "undelete",
	"rollback", "rollback", "read policy", "promote", "promote", "promote", "read promoted", "read promoted", "delete promoted",
	"undelete promoted", "undelete promoted",
}

func (c *linearClient) choose() linearCall {
	call := linearCall{method: methods[c.random.IntN(len(methods))], experiment: c.random.IntN(2)}
	known := c.known[call.experiment]
	switch call.method {
	case "create", "update":
		call.content = "c" + strconv.FormatInt(c.contents.Add(1), 10)
	case "commit":
		if known.etag == "" {
			call.method = "read"
		}
		call.basis = known.content
	case "rollback":
		if c.revision.name == "" {
			call.method = "read policy"
		}
		call.content = c.revision.content
	case "promote":
		if c.seen.source.version == "" {
			call.method = "read policy"
		}
		call.content, call.basis = c.seen.source.content, c.seen.target.content
	}
	if c.random.IntN(2) == 0 && (call.method == "update" || call.method == "start" || call.method == "delete") {
		call.basis = known.content
	}
	return call
}

// make makes a call and returns its result.
func (c *linearClient) make(call linearCall) linearResult {
	ctx, id := context.Background(), "e"+strconv.Itoa(call.experiment)
	name := c.policy + "/experiments/" + id
	etag := ""
	if call.basis != "" {
		etag = c.known[call.experiment].etag
	}
	content := &adminpb.PolicyExperiment{Name: name, Etag: etag, Policy: &adminpb.Policy{Name: c.policy, DisplayName: call.content}}
	var err error
	switch call.method {
	case "read policy":
		return c.readPolicy(ctx)
	case "read promoted":
		p, err := c.server.GetPolicy(ctx, &adminpb.GetPolicyRequest{Name: c.promoted})
		if err != nil {
			return linearResult{code: status.Code(err)}
		}
		c.seen.target.content, c.seen.target.version = p.GetDisplayName(), p.GetEtag()
		return linearResult{seen: fmt.Sprint(p.GetDisplayName(), p.GetDeleteTime() != nil)}
	case "delete promoted":
		_, err = c.server.DeletePolicy(ctx, &adminpb.DeletePolicyRequest{Name: c.promoted})
	case "undelete promoted":
		_, err = c.server.UndeletePolicy(ctx, &adminpb.UndeletePolicyRequest{Name: c.promoted})
	case "rollback":
		_, err = c.server.RollbackPolicy(ctx, &adminpb.RollbackPolicyRequest{Name: c.revision.name})
	case "promote":
		_, err = c.server.PromotePolicies(ctx, &adminpb.PromotePoliciesRequest{
			Parent: c.location, Destination: c.next,
			Policies: []*adminpb.PromotedPolicy{{Revision: c.seen.source.version, TargetEtag: c.seen.target.version}},
		})
	case "read":
		return c.read(ctx, call.experiment, name)
	case "create":
		_, err = c.server.CreatePolicyExperiment(ctx, &adminpb.CreatePolicyExperimentRequest{
			Parent: c.policy, PolicyExperimentId: id, PolicyExperiment: content,
		})
	case "update":
		_, err = c.server.UpdatePolicyExperiment(ctx, &adminpb.UpdatePolicyExperimentRequest{
			PolicyExperiment: content, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"policy"}},
		})
	case "start":
		_, err = c.server.StartPreviewPolicyExperiment(ctx, &adminpb.StartPreviewPolicyExperimentRequest{Name: name, Etag: etag})
	case "stop":
		_, err = c.server.StopPreviewPolicyExperiment(ctx, &adminpb.StopPreviewPolicyExperimentRequest{Name: name})
	case "commit":
		_, err = c.server.CommitPolicyExperiment(ctx, &adminpb.CommitPolicyExperimentRequest{Name: name, Etag: etag})
	case "delete":
		_, err = c.server.DeletePolicyExperiment(ctx, &adminpb.DeletePolicyExperimentRequest{Name: name, Etag: etag})
	case "delete policy":
		_, err = c.server.DeletePolicy(ctx, &adminpb.DeletePolicyRequest{Name: c.policy})
	case "undelete":
		_, err = c.server.UndeletePolicy(ctx, &adminpb.UndeletePolicyRequest{Name: c.policy})
	}
	return linearResult{code: status.Code(err)}
}

// readPolicy reads the live policy and remembers its revision now and then.
func (c *linearClient) readPolicy(ctx context.Context) linearResult {
	p, err := c.server.GetPolicy(ctx, &adminpb.GetPolicyRequest{Name: c.policy})
	if err == nil {
		c.seen.source.content, c.seen.source.version = p.GetDisplayName(), p.GetRevision()
	}
	if c.revision.name == "" || c.random.IntN(3) == 0 {
		c.revision.content, c.revision.name = p.GetDisplayName(), p.GetRevision()
	}
	return linearResult{code: status.Code(err), seen: fmt.Sprint(p.GetDisplayName(), p.GetDeleteTime() != nil)}
}

// read reads an experiment and remembers it.
func (c *linearClient) read(ctx context.Context, experiment int, name string) linearResult {
	e, err := c.server.GetPolicyExperiment(ctx, &adminpb.GetPolicyExperimentRequest{Name: name})
	if err != nil {
		return linearResult{code: status.Code(err)}
	}
	content := e.GetPolicy().GetDisplayName()
	c.known[experiment].content, c.known[experiment].etag = content, e.Etag
	return linearResult{seen: linearExperiment{content, e.GetPreviewMetadata().GetState()}.String()}
}
