package replay

import (
	"context"
	"io"
	"slices"
	"time"

	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// File is a recording.
type File struct {
	// Name is for messages.
	Name string
	// Open opens it. It is closed when it has been read.
	Open func() (io.ReadCloser, error)
}

// Options say what is replayed, and how.
type Options struct {
	// Live and Candidate are the two policies.
	Live, Candidate *adminpb.Policy
	// Expects are the differences that the candidate is meant to make.
	Expects []*adminpb.Expectation
	Versions
	// Policy takes only entries that are about a policy of this name, of those that name one:
	// a sidecar's log has the decisions of all its policies.
	Policy string
	// Rules take entries of these rules too, next to those that the policies ask.
	Rules []string
	// Files are read in order.
	Files []File
	// Workers decide at the same time. Zero means one.
	Workers int
	// Timeout bounds a decision. Zero means five seconds.
	Timeout time.Duration
	// Default is the decision of a policy without rules.
	Default authz.Effect
	Strictness
	// Progress is called now and then with the number of entries that were counted, by one
	// goroutine at a time; nil if nobody wants to know.
	Progress func(entries int64)
	// Compared is called with each request that was compared, in the order of the files, by one goroutine at a
	// time; nil if nobody wants to know.
	Compared func(*authz.Request)
	// Examples has entries of the groups of differences kept.
	Examples bool
}

// Versions name the contents of the two policies.
type Versions struct {
	// LiveEtag and CandidateEtag are their names in the evidence.
	LiveEtag, CandidateEtag string
	// LiveRevision is what a log calls the present content of the live policy: its etag, or
	// the revision of a bundle. It is empty if that is not known.
	LiveRevision string
}

// Strictness says which entries are refused.
type Strictness struct {
	// Strict makes the first record that cannot be read an error.
	Strict bool
	// DuplicateKeys has bodies read of which an object has a key twice. Otherwise their entries are not
	// compared, if a policy reads bodies: a server denies them.
	DuplicateKeys bool
}

// PolicyError is the error of a policy that does not compile.
type PolicyError struct {
	Side Side
	// Err is an *authz.CompileError, or that of the context.
	Err error
}

// Error implements error.
func (e *PolicyError) Error() string { return "the " + string(e.Side) + ": " + e.Err.Error() }

// Unwrap lets errors.As see the cause.
func (e *PolicyError) Unwrap() error { return e.Err }

// maxRecordTime is how long a decision may take.
const maxRecordTime = 5 * time.Second

// replay is one run.
type replay struct {
	Options
	live, candidate *side
	items           *itemExaminer
	count           *counts
	// began is the clock of entries without a time.
	began time.Time
}

// Run replays. The result is there with an error too, as far as it got: the error is that of
// ctx, of a file, or, if Strict, of the first record that cannot be read. That of a policy that
// does not compile is an *authz.CompileError, and comes without a result.
func Run(ctx context.Context, o Options) (*Result, error) {
	if o.Timeout == 0 {
		o.Timeout = maxRecordTime
	}
	r := &replay{Options: o, began: time.Now()}
	var err error
	if r.live, err = newSide(ctx, Live, o.Live); err != nil {
		return nil, &PolicyError{Live, err}
	}
	if r.candidate, err = newSide(ctx, Candidate, o.Candidate); err != nil {
		return nil, &PolicyError{Candidate, err}
	}
	list, err := authz.Items(ctx, o.Live, o.Candidate)
	if err != nil {
		list = nil // what compiles can be compared, unless ctx is done
	}
	r.items = newExamining(list)
	r.count = newCounting(r)
	err = r.pipeline(ctx)
	return r.count.result(), err
}

// conditions are those of every decision.
func (r *replay) conditions() authz.Conditions {
	return authz.Conditions{Shadow: true, Default: r.Default, Timeout: r.Timeout}
}

// concerns reports whether an entry of a rule is about the policies.
func (r *replay) concerns(path string) bool {
	return path == "" || r.live.asks(path) || r.candidate.asks(path) || slices.Contains(r.Rules, path)
}
