package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/logreader"
	"understudy/rego/explain"
)

// Recorded is one decision of a log, or one request that was not logged. It is immutable.
type Recorded struct {
	entry logreader.Entry
}

// ErrNoDecision says that no file has a decision.
var ErrNoDecision = errors.New("there is no decision with this ID")

// Find returns the decision with an ID, the first one in the order of the files. The error is
// that of ctx or of a file, or [ErrNoDecision].
func Find(ctx context.Context, files []File, decisionID string) (*Recorded, error) {
	for _, file := range files {
		found, err := findIn(ctx, file, decisionID)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file.Name, err)
		}
		if found != nil {
			return found, nil
		}
	}
	return nil, ErrNoDecision
}

// findIn returns the decision with an ID in a file; nil if there is none.
func findIn(ctx context.Context, file File, decisionID string) (*Recorded, error) {
	in, err := file.Open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	scanner, err := logreader.NewScanner(in)
	if err != nil {
		return nil, err
	}
	var parsed logreader.Parsed
	for ctx.Err() == nil {
		record, err := scanner.Next()
		var broken *logreader.BrokenError
		switch {
		case errors.Is(err, io.EOF):
			return nil, nil
		case errors.As(err, &broken):
			continue
		case err != nil:
			return nil, err
		}
		parsed.Reset()
		parsed.Parse(record.Text)
		for _, e := range parsed.Entries {
			if e.DecisionID == decisionID {
				return &Recorded{e}, nil // the scanner is not asked again, so nobody writes over its text
			}
		}
	}
	return nil, ctx.Err()
}

// Request returns a request that is in no log: a CheckRequest as JSON, which was decided at a
// time.
func Request(check []byte, at time.Time) *Recorded {
	return &Recorded{logreader.Entry{Check: check, Time: at}}
}

// Policy returns the name of the policy that decided, and its version as logs name it: an etag,
// or the revision of a bundle. Both are empty if the log does not say.
func (r *Recorded) Policy() (name authz.PolicyName, revision string) {
	for key, value := range r.entry.Bundles.Members() {
		return authz.PolicyName(key), value.At("revision").Text()
	}
	return "", ""
}

// Time returns when it was decided; zero if that is not known.
func (r *Recorded) Time() time.Time { return r.entry.Time }

// Failure returns why there was no decision, as the log has it; empty if there was one.
func (r *Recorded) Failure() string { return r.entry.Error.At("message").Text() }

// Explanation says why a policy decides a request as it does.
type Explanation struct {
	// Decision is the decision of the policy on the request, at the request's time.
	Decision authz.Decision
	// Causes are the expressions that decided, the decisive one first; none if no Rego rule
	// decided.
	Causes []explain.Expression
	// NotDecided is why the request could not be decided again; empty if it was. Missing are
	// the fields for which it could not, because they are not in the log.
	NotDecided string
	Missing    []MissingField
	// Drift is from what was recorded to what is decided now. It is authz.Unchanged if both are the same, or if the
	// log does not say what was decided.
	Drift authz.Difference
}

// Explain decides a recorded request by a policy, and explains the decision. The error is that of
// ctx, a *[PolicyError], or that of the evaluation.
func (r *Recorded) Explain(ctx context.Context, policy *adminpb.Policy) (*Explanation, error) {
	s, err := newSide(ctx, Live, policy)
	if err != nil {
		return nil, &PolicyError{Live, err}
	}
	run := &replay{
		Options: Options{Live: policy, Candidate: policy, Timeout: maxRecordTime, Strictness: Strictness{DuplicateKeys: true}},
		live:    s, candidate: s, items: newExamining(nil), began: time.Now(),
	}
	j := newWorker(run).entry(ctx, &r.entry)
	out := &Explanation{Decision: j.live, NotDecided: j.skipped, Drift: authz.Unchanged}
	if j.drift.known {
		out.Drift = j.drift.kind
	}
	for i, m := range j.lacks {
		if i == 0 || m.field != j.lacks[i-1].field { // both sides are the same policy
			out.Missing = append(out.Missing, MissingField{Field: m.field, Position: s.positionOf(m.path)})
		}
	}
	if j.skipped != "" || j.live.RulePath() == "" {
		return out, ctx.Err()
	}
	trace, err := s.compiled.Trace(ctx, nil, j.request, j.live.RulePath())
	if err != nil {
		return nil, err
	}
	out.Causes = explain.Decisive(trace, j.live.Effect == authz.Allow)
	return out, nil
}
