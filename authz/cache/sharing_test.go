package cache

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/rego"
)

// slow is a request of which each part takes a while.
type slow struct {
	x string
	// made counts the evaluations that asked for a part. A look-up knows what it asks for.
	made *atomic.Int64
	// err is what there is in place of a part; nil is none.
	err error
}

// parts is of [authz.Request]: evaluations pass what reading may cost.
func (s slow) parts(*authz.ReadBudget) (rego.Request, error) { return s, nil }

func (s slow) At(*rego.Path) (rego.Value, error) {
	time.Sleep(30 * time.Millisecond)
	s.made.Add(1)
	return rego.String(s.x), s.err
}

func (slow) Sealed(*rego.Path) bool { return false }

func (slow) Seal(_ *rego.Path, b []byte) []byte { return b }

// about returns a request that has a part.
func (a *asked) about(x string, err error) *authz.Request {
	return &authz.Request{Operation: authz.OperationCheck, Time: moment, Parts: slow{x, &a.made, err}.parts}
}

// caching is a policy that allows the input {"x": "yes"}, with a cache.
func caching(t *testing.T) *Policy {
	t.Helper()
	compiled, err := authz.Compile(t.Context(), &adminpb.Policy{
		Rules:   []*adminpb.PolicyRule{{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
		Modules: map[string]string{"a.rego": `package envoy.authz` + "\n" + `allow if input.x == "yes"`},
	})
	if err != nil {
		t.Fatal(err)
	}
	p := NewPolicy(compiled)
	if err := p.SetSize(100); err != nil {
		t.Fatal(err)
	}
	return p
}

// moment is the time of all requests.
var moment = time.Unix(1_700_000_000, 0)

// asked counts what becomes of requests.
type asked struct {
	sync.WaitGroup
	made, found, allowed, canceled atomic.Int64
}

// ask decides a request next to others.
func (a *asked) ask(ctx context.Context, p *Policy, x string, err error) {
	r := a.about(x, err)
	a.Go(func() {
		d, found := p.EvaluateShared(ctx, r, authz.Conditions{}, p.Search(ctx, r))
		if found {
			a.found.Add(1)
		}
		if d.Effect == authz.Allow {
			a.allowed.Add(1)
		}
		if d.Failure == authz.FailureCanceled {
			a.canceled.Add(1)
		}
	})
}

// TestEqualRequestsAreEvaluatedOnce that come while one of them is being decided: all that ask for the same
// first wait for one, and what that one's answers do not decide is evaluated then.
func TestEqualRequestsAreEvaluatedOnce(t *testing.T) {
	p := caching(t)
	synctest.Test(t, func(t *testing.T) {
		a := &asked{}
		for range 10 {
			a.ask(t.Context(), p, "yes", nil)
		}
		a.Wait()
		if a.found.Load() != 9 || a.allowed.Load() != 10 {
			t.Errorf("%d were found and %d allowed", a.found.Load(), a.allowed.Load())
		}
		for range 10 {
			a.ask(t.Context(), p, "no", nil)
		}
		a.Wait()
		if a.found.Load() != 18 || a.allowed.Load() != 10 {
			t.Errorf("%d were found and %d allowed", a.found.Load(), a.allowed.Load())
		}
	})
}

// TestWhatIsNotKeptIsNotShared: a failure is that of one request. The others wait for it
// once, and are then evaluated at the same time.
func TestWhatIsNotKeptIsNotShared(t *testing.T) {
	p := caching(t)
	synctest.Test(t, func(t *testing.T) {
		a, begun := &asked{}, time.Now()
		for range 10 {
			a.ask(t.Context(), p, "yes", context.DeadlineExceeded)
		}
		a.Wait()
		if a.made.Load() != 10 || a.found.Load() != 0 || a.allowed.Load() != 0 {
			t.Errorf("%d were evaluated, %d found and %d allowed", a.made.Load(), a.found.Load(), a.allowed.Load())
		}
		if took := time.Since(begun); took != 60*time.Millisecond {
			t.Errorf("it took %s", took)
		}
	})
}

// TestACallerThatLeavesEndsNobody: those that waited for it are evaluated.
func TestACallerThatLeavesEndsNobody(t *testing.T) {
	p := caching(t)
	synctest.Test(t, func(t *testing.T) {
		a := &asked{}
		gone, leave := context.WithCancel(t.Context())
		a.ask(gone, p, "yes", context.Canceled)
		synctest.Wait()
		for range 10 {
			a.ask(t.Context(), p, "yes", nil)
		}
		a.ask(gone, p, "yes", context.Canceled)
		leave()
		a.Wait()
		if a.allowed.Load() != 10 || a.canceled.Load() != 2 {
			t.Errorf("%d were allowed and %d canceled", a.allowed.Load(), a.canceled.Load())
		}
		if n := len(p.evaluations.underWay); n != 0 {
			t.Errorf("%d are under way in the end", n)
		}
	})
}

// TestNobodyWaitsForLong for an evaluation of another request.
func TestNobodyWaitsForLong(t *testing.T) {
	p := caching(t)
	synctest.Test(t, func(t *testing.T) {
		a, begun := &asked{}, time.Now()
		p.evaluations.begin(root) // which never ends
		a.ask(t.Context(), p, "yes", nil)
		a.Wait()
		if took := time.Since(begun); took != longestShare+30*time.Millisecond || a.allowed.Load() != 1 {
			t.Errorf("it took %s, and %d were allowed", took, a.allowed.Load())
		}
		p.evaluations.end(root)
	})
}
