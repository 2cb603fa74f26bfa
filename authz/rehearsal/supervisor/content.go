package supervisor

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/background"
	"understudy/authz/rehearsal/wire"
	"understudy/rego/change"
	"understudy/rego/regotest"
)

// contentTime bounds how long a call of the API waits for the rehearsal process. It is a little
// less than a port waits for any answer: where others keep all processors at work, the process
// has a low priority, and what takes a second of processor time takes half a minute.
const contentTime = 100 * time.Second

// apiName is the name of what the API asks, in logs.
const apiName = "content given to the API"

// deterministic marshals equal policies alike.
var deterministic = proto.MarshalOptions{Deterministic: true}

// marshal returns what is compiled of a policy.
func marshal(p *adminpb.Policy) (source []byte, err error) {
	background.Run(proto.Size(p), func() { source, err = deterministic.Marshal(authz.CompiledPart(p)) })
	return source, err
}

// Compile compiles a policy in the rehearsal process. It returns nil if it compiles, an
// *authz.CompileError if it does not or takes more than the process has, an error of ctx, or
// one that wraps ErrUnavailable.
func (s *Supervisor) Compile(ctx context.Context, p *adminpb.Policy) error {
	source, err := marshal(p)
	if err != nil {
		return fmt.Errorf("encoding the policy: %w", err)
	}
	answer, err := s.ask(ctx, wire.KindCompile, source)
	if err != nil {
		return refusal(err, "Compiling the policy fails: ")
	}
	var c wire.Compiled
	if err := wire.Unmarshal(answer, &c); err != nil {
		return err
	}
	return c.Refused.Err()
}

// Test runs the tests of a policy in the rehearsal process, all within limit. Its errors are
// those of Compile, and context.DeadlineExceeded if the tests take too long.
func (s *Supervisor) Test(
	ctx context.Context, p *adminpb.Policy, limit time.Duration, options regotest.Options,
) (regotest.Report, error) {
	source, err := marshal(p)
	if err != nil {
		return regotest.Report{}, fmt.Errorf("encoding the policy: %w", err)
	}
	request := wire.TestRequest{Policy: source, Time: limit, Timeout: options.Timeout}
	answer, err := s.ask(ctx, wire.KindTest, wire.Marshal(request))
	if err != nil {
		return regotest.Report{}, refusal(err, "Testing the policy fails: ")
	}
	var tested wire.Tested
	if err := wire.Unmarshal(answer, &tested); err != nil {
		return regotest.Report{}, err
	}
	if tested.OutOfTime {
		return tested.Report, context.DeadlineExceeded
	}
	return tested.Report, tested.Refused.Err()
}

// Items returns in what a policy differs from a live one, or, if only what has an effect counts, what
// [authz.EffectiveItems] returns. It is found out in the rehearsal process. Its errors are those of Compile.
func (s *Supervisor) Items(ctx context.Context, live, candidate *adminpb.Policy, effective bool) (*change.List, error) {
	before, err := marshal(live)
	if err != nil {
		return nil, fmt.Errorf("encoding the live policy: %w", err)
	}
	after, err := marshal(candidate)
	if err != nil {
		return nil, fmt.Errorf("encoding the policy: %w", err)
	}
	answer, err := s.ask(ctx, wire.KindCompare, wire.Marshal(wire.CompareRequest{Live: before, Candidate: after, Effective: effective, Time: contentTime}))
	if err != nil {
		return nil, refusal(err, "Comparing the policies fails: ")
	}
	var c wire.Compared
	if err := wire.Unmarshal(answer, &c); err != nil {
		return nil, err
	}
	if err := c.Refused.Err(); err != nil {
		return nil, err
	}
	return &c.List, nil
}

// refusal is the error of content that ended the process.
func refusal(err error, what string) error {
	var crash *CrashError
	if !errors.As(err, &crash) {
		return err
	}
	return &authz.CompileError{Violations: []authz.Violation{{Field: "modules", Description: what + crash.Error() + "."}}}
}

// ask asks the child for one thing about a policy that it does not know, in a lane of its
// own. What ended the process lately is not tried again.
func (s *Supervisor) ask(ctx context.Context, kind wire.Kind, payload []byte) ([]byte, error) {
	key := sha256.Sum256(append([]byte{byte(kind)}, payload...))
	if crash := s.refused.find(key); crash != nil {
		return nil, crash
	}
	l, err := s.newLane(laneOptions{name: apiName, room: 1})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	defer l.end(ErrChanged)
	type outcome struct {
		answer []byte
		err    error
	}
	done := make(chan outcome, 1)
	err = l.offer(&task{
		kind: kind, payload: payload,
		done: func(answer []byte, err error) { done <- outcome{answer, err} },
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	timer := time.NewTimer(contentTime)
	defer timer.Stop()
	select {
	case o := <-done:
		if crash := (*CrashError)(nil); errors.As(o.err, &crash) {
			s.refused.keep(key, crash)
		} else if errors.Is(o.err, ErrShutdown) {
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, o.err)
		}
		return o.answer, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timer.C:
		return nil, fmt.Errorf("%w: it has not answered for %v", ErrUnavailable, contentTime)
	}
}

const (
	// maxRefusals is how many contents are kept that ended a process, and refusalPeriod for
	// how long: the bounds may be changed in another version of a server, and a machine may
	// have been short of memory.
	maxRefusals   = 1024
	refusalPeriod = 10 * time.Minute
)

// refusals are the contents that ended a process lately. The zero value is empty.
type refusals struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]refusedContent
}

type refusedContent struct {
	crash *CrashError
	at    time.Time
}

func (r *refusals) find(key [sha256.Size]byte) *CrashError {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.known[key]
	if !ok || time.Since(known.at) > refusalPeriod {
		delete(r.known, key)
		return nil
	}
	return known.crash
}

func (r *refusals) keep(key [sha256.Size]byte, crash *CrashError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil || len(r.known) >= maxRefusals {
		r.known = make(map[[sha256.Size]byte]refusedContent)
	}
	r.known[key] = refusedContent{crash, time.Now()}
}
