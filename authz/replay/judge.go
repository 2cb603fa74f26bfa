package replay

import (
	"context"
	"slices"

	"understudy/authz"
	"understudy/authz/evidence"
	"understudy/authz/extauthz/input"
	"understudy/authz/recorded"
)

// Why an entry was not compared.
const (
	skipRule        = "it is a decision of another rule"
	skipPolicy      = "it is a decision of another policy"
	skipQuery       = "it is an ad-hoc query"
	skipReservation = "it is about a reservation"
	skipInput       = "it has no input document"
	skipFields      = "fields that a policy reads were erased or masked"
	skipService     = "an external service decides, and its answers are not recorded"
	skipTime        = "its time is not known, and a policy reads the clock"
	skipUnreadable  = "its request cannot be read"
)

// judgement is what came out of an entry.
type judgement struct {
	entry recorded.Entry
	// skipped is why it was not compared; empty if it was.
	skipped string
	// lacks are the fields for which it was not.
	lacks           []missing
	request         *authz.Request
	difference      authz.Difference
	live, candidate authz.Decision
	outcome         *evidence.Outcome
	drift           drift
}

// worker decides entries, one after the other.
type worker struct {
	*replay
	parsed recorded.Parsed
	checks input.Reader
	// lacking :: what a log says of erased and masked fields → what the policies miss.
	lacking map[string][]missing
	drifts  drifts
}

// maxLacking bounds what a worker keeps of lists of fields.
const maxLacking = 1024

func newWorker(r *replay) *worker {
	return &worker{replay: r, lacking: make(map[string][]missing), drifts: newDrifts()}
}

// judge decides the entries of a batch.
func (w *worker) judge(ctx context.Context, b *batch) {
	for _, s := range b.spans {
		if ctx.Err() != nil {
			return
		}
		w.parsed.Reset()
		w.parsed.Parse(b.bytes[s.begin:s.end:s.end])
		b.other += int64(w.parsed.Other)
		for _, reason := range w.parsed.Broken {
			b.broken = append(b.broken, Broken{b.file, s.number, reason})
		}
		for i := range w.parsed.Entries {
			b.judged = append(b.judged, w.entry(ctx, &w.parsed.Entries[i]))
		}
	}
}

// entry decides an entry, if it is one to decide.
func (w *worker) entry(ctx context.Context, e *recorded.Entry) judgement {
	j := judgement{entry: *e}
	if j.skipped = w.irrelevant(e); j.skipped != "" {
		return j
	}
	var has fields
	var err error
	if j.request, has, err = requestOf(e, &w.checks); err != nil {
		j.skipped = skipUnreadable
		return j
	}
	if w.Policy != "" && j.request.Policy != "" && string(j.request.Policy) != w.Policy {
		j.skipped = skipPolicy
		return j
	}
	if j.lacks = w.missing(e); has&(w.live.always|w.candidate.always) != w.live.always|w.candidate.always {
		j.lacks = w.candidate.absent(has, w.live.absent(has, slices.Clip(j.lacks)))
	}
	if len(j.lacks) > 0 {
		j.skipped = skipFields
		return j
	}
	w.decide(ctx, &j)
	return j
}

// irrelevant returns why an entry is none that the policies decide; empty if it is one.
func (w *worker) irrelevant(e *recorded.Entry) string {
	switch {
	case e.Query != "" && e.Path == "":
		return skipQuery
	case !w.concerns(e.Path):
		return skipRule
	case !w.named(e):
		return skipPolicy
	case e.Check == nil && isReservation(e.Input):
		return skipReservation
	case e.Check == nil && e.Input == nil && !slices.Contains(e.Erased.Texts(), "/input"):
		return skipInput
	}
	return ""
}

// isReservation reports whether an input document is one of Blazar's.
func isReservation(d recorded.Document) bool {
	lease := false
	for name := range d.Members() {
		if string(name) == "attributes" {
			return false
		}
		lease = lease || string(name) == "lease"
	}
	return lease
}

// named reports whether an entry is about the policy whose entries are wanted, if it says so.
func (w *worker) named(e *recorded.Entry) bool {
	if w.Policy == "" || e.Bundles == nil {
		return true
	}
	for name := range e.Bundles.Members() {
		if string(name) == w.Policy || authz.PolicyName(name).ID() == authz.PolicyID(w.Policy) {
			return true
		}
	}
	return false
}

// missing returns the fields that were erased or masked and that a policy reads. Most entries
// of a log have the same, so they are looked at once.
func (w *worker) missing(e *recorded.Entry) []missing {
	if e.Erased == nil && e.Masked == nil {
		return nil
	}
	key := string(e.Erased) + "\n" + string(e.Masked)
	lacks, known := w.lacking[key]
	if !known {
		pointers := append(e.Erased.Texts(), e.Masked.Texts()...)
		lacks = w.candidate.lost(pointers, w.live.lost(pointers, nil))
		if len(w.lacking) >= maxLacking {
			clear(w.lacking)
		}
		w.lacking[key] = lacks
	}
	return lacks
}

// decide decides an entry by both policies, at its own time, and compares.
func (w *worker) decide(ctx context.Context, j *judgement) {
	timeless := j.request.Time.IsZero()
	if timeless {
		j.request.Time = w.began
		j.live = w.live.compiled.Decide(ctx, j.request, w.conditions())
		j.candidate = w.candidate.compiled.Decide(ctx, j.request, w.conditions())
	} else {
		j.live = w.live.decide(ctx, j.request, w.conditions())
		j.candidate = w.candidate.decide(ctx, j.request, w.conditions())
	}
	switch {
	case unanswered(j.live) || unanswered(j.candidate):
		j.skipped = skipService
		return
	case timeless && (j.live.Timed() || j.candidate.Timed()):
		j.skipped = skipTime
		return
	}
	j.difference = authz.Compare(j.live, j.candidate)
	var changed []string
	if j.difference == authz.ResponseChanged {
		changed = authz.Changed(j.live, j.candidate)
	}
	j.outcome = evidence.NewOutcome(j.difference, j.live, j.candidate, changed)
	j.drift = w.drifts.of(w.live, &j.entry, j.live)
	w.coverage.cover(ctx, j.request)
}

// unanswered reports whether a decision hangs on an external service.
func unanswered(d authz.Decision) bool {
	return d.Failure == authz.FailureNotCalled || d.Failure == authz.FailureExternal
}
