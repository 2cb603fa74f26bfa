package examine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/diagnostics"
	"understudy/authz/rehearsal/decisionrequest"
	"understudy/authz/rehearsal/supervisor"
	"understudy/authz/rehearsal/wire"
)

// Config is what an [Examiner] needs. All fields are required.
type Config struct {
	// Live are the live policies in the rehearsal process.
	Live     *decisionrequest.LivePolicies
	Requests decisionrequest.Maker
	Output   diagnostics.Output
}

// Examiner examines requests. It is safe for concurrent use.
type Examiner struct {
	config Config
	// underWay are the examinations that wait or are made.
	underWay sync.WaitGroup
	ended    atomic.Bool
	// explaining is how many differences are being explained, sampling how many live
	// decisions are made twice, and dice draws those.
	explaining, sampling atomic.Int32
	dice                 func() uint64

	explanations metric.Int64Counter
	options      diagnostics.Options
}

// New returns an Examiner. The error is that of the meter.
func New(config Config) (*Examiner, error) {
	x := &Examiner{config: config, dice: rand.Uint64}
	return x, x.makeMetric()
}

// End has nothing more be begun: what waits is left out. Wait waits for what is under way then.
func (x *Examiner) End() { x.ended.Store(true) }

// Wait returns when nothing is under way. Meanwhile only examinations may begin others.
func (x *Examiner) Wait() { x.underWay.Wait() }

// Candidate is the policy of an experiment. It is safe for concurrent use.
type Candidate struct {
	Source   *adminpb.Policy
	Exempted authz.Exemptions
	// Remote is the policy in the rehearsal process; nil if there is none.
	Remote *supervisor.RemotePolicy
	// spent says that an examination ended the process.
	spent atomic.Bool
}

// examined notes what became of an examination. If it ended the rehearsal process, there are
// no more of them for the candidate: three deaths would suspend the experiment itself.
func (c *Candidate) examined(err error) {
	if crash := (*supervisor.CrashError)(nil); errors.As(err, &crash) {
		c.spent.Store(true)
	}
}

// Subject is a request that a live policy has decided, and an experiment.
type Subject struct {
	Request *authz.Request
	// Bytes is about the memory that the request holds.
	Bytes int
	Live  *decisionrequest.Live
	// Decision is that of the live policy, and Leaf that of the decision of the experiment.
	Decision  authz.Decision
	Leaf      authz.Leaf
	Candidate *Candidate
	// Experiment is the resource name, for logs.
	Experiment string
}

// evaluated reports whether the live policy evaluates the request.
func (s *Subject) evaluated() bool {
	live := s.Live.Policy.Compiled()
	return !live.NoOp() && s.Request.Operation != authz.OperationOnEnd && !live.Exempts(s.Request)
}

// finished is a done that is called once.
func finished[T any](done func(T, error)) func(T, error) {
	var once sync.Once
	return func(answer T, err error) { once.Do(func() { done(answer, err) }) }
}

// about is an examination of a subject by who reads its body or does not. failed gets the reason if there is no request.
func (x *Examiner) about(s *Subject, body bool, kept func() bool, failed func(error)) supervisor.Examination {
	return supervisor.Examination{Bytes: s.Bytes, Kept: kept, Prepare: func() (wire.DecisionRequest, bool) { return x.request(s, body, failed) }}
}

func (x *Examiner) request(s *Subject, body bool, failed func(error)) (q wire.DecisionRequest, ok bool) {
	defer func() {
		if cause := recover(); cause != nil {
			x.report(s, cause)
			failed(fmt.Errorf("reading the request panicked: %v", cause))
			q, ok = wire.DecisionRequest{}, false
		}
	}()
	q, err := x.config.Requests.Of(s.Request, body)
	if err != nil {
		failed(err)
	}
	return q, err == nil
}

// survive is deferred: what panics costs no comparison.
func (x *Examiner) survive(s *Subject) {
	if cause := recover(); cause != nil {
		x.report(s, cause)
	}
}

func (x *Examiner) report(s *Subject, cause any) {
	x.config.Output.Panics.Report(context.Background(), diagnostics.PanicPreview, cause,
		slog.String("of", s.Experiment), slog.String("decision_id", s.Request.ID))
}
