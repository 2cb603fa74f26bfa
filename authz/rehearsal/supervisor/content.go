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
	"understudy/authz/rehearsal/wire"
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
func marshal(p *adminpb.Policy) ([]byte, error) {
	return deterministic.Marshal(authz.CompiledPart(p))
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

// refusal is the error of content that ended the process.
func refusal(err error, what string) error {
	var guilt *Guilt
	if !errors.As(err, &guilt) {
		return err
	}
	return &authz.CompileError{Violations: []authz.Violation{{Field: "modules", Description: what + guilt.Error() + "."}}}
}

// ask asks the child for one thing about a policy that it does not know, in a lane of its
// own. What ended the process lately is not tried again.
func (s *Supervisor) ask(ctx context.Context, kind wire.Kind, payload []byte) ([]byte, error) {
	key := sha256.Sum256(append([]byte{byte(kind)}, payload...))
	if guilt := s.refused.find(key); guilt != nil {
		return nil, guilt
	}
	l, err := s.newLane(&lane{name: apiName, room: 1})
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
		if guilt := (*Guilt)(nil); errors.As(o.err, &guilt) {
			s.refused.keep(key, guilt)
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
	guilt *Guilt
	at    time.Time
}

func (r *refusals) find(key [sha256.Size]byte) *Guilt {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.known[key]
	if !ok || time.Since(known.at) > refusalPeriod {
		delete(r.known, key)
		return nil
	}
	return known.guilt
}

func (r *refusals) keep(key [sha256.Size]byte, guilt *Guilt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil || len(r.known) >= maxRefusals {
		r.known = make(map[[sha256.Size]byte]refusedContent)
	}
	r.known[key] = refusedContent{guilt, time.Now()}
}
