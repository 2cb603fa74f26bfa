package replay

import (
	"context"
	"slices"

	"understudy/authz"
	"understudy/authz/evidence"
	"understudy/authz/extauthz/input"
	"understudy/authz/logreader"
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
	skipDuplicate   = "its body has a key twice, for which the server denies it (--duplicate-keys)"
)

// judgement is what came out of an entry.
type judgement struct {
	entry logreader.Entry
	// skipped is why it was not compared; empty if it was.
	skipped string
	// lacks are the fields for which it was not.
	lacks           []missingField
	request         *authz.Request
	input           recordedInput
	difference      authz.Difference
	live, candidate authz.Decision
	outcome         *evidence.Outcome
	drift           drift
}

// worker decides entries, one after the other.
type worker struct {
	*replay
	parsed logreader.Parsed
	checks input.Reader
	// lists :: which fields a document has, and what its log says of erased and masked ones → what was lost.
	lists map[string][]lostField
	// key is room for a key of lists.
	key    []byte
	drifts drifts
	// examiner is made when the first request is examined.
	examiner *authz.Judge
}

// maxLists bounds what a worker keeps of lists of fields.
const maxLists = 1024

func newWorker(r *replay) *worker {
	w := &worker{replay: r, lists: make(map[string][]lostField), drifts: newDrifts()}
	w.checks.Bodies.DuplicateKeys = r.DuplicateKeys
	return w
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
func (w *worker) entry(ctx context.Context, e *logreader.Entry) judgement {
	j := judgement{entry: *e}
	if j.skipped = w.irrelevant(e); j.skipped != "" {
		return j
	}
	var has fields
	var err error
	if j.request, j.input, has, err = requestOf(e, &w.checks); err != nil {
		j.skipped = skipUnreadable
		return j
	}
	if w.Policy != "" && j.request.Policy != "" && string(j.request.Policy) != w.Policy {
		j.skipped = skipPolicy
		return j
	}
	if !w.DuplicateKeys && w.readsBodies() && j.input.hasDuplicateKey() {
		j.skipped = skipDuplicate
		return j
	}
	w.decide(ctx, &j, w.lost(e, has))
	return j
}

// irrelevant returns why an entry is none that the policies decide; empty if it is one.
func (w *worker) irrelevant(e *logreader.Entry) string {
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
func isReservation(d logreader.Document) bool {
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
func (w *worker) named(e *logreader.Entry) bool {
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

// lost returns the fields that an entry has not as they were. Most entries of a log have lost the same, so
// that is looked at once.
func (w *worker) lost(e *logreader.Entry, has fields) []lostField {
	if e.Erased == nil && e.Masked == nil && has == hasAll {
		return nil
	}
	w.key = append(append(append(append(w.key[:0], byte(has)), e.Erased...), '\n'), e.Masked...)
	lost, known := w.lists[string(w.key)]
	if !known {
		lost = lostFields(e, has)
		if len(w.lists) >= maxLists {
			clear(w.lists)
		}
		w.lists[string(w.key)] = lost
	}
	return lost
}

// decide decides an entry by both policies, at its own time, and compares.
func (w *worker) decide(ctx context.Context, j *judgement, lost []lostField) {
	timeless := j.request.Time.IsZero()
	if timeless {
		j.request.Time = w.began
	}
	j.live = w.decideBy(ctx, w.live, j, lost)
	j.candidate = w.decideBy(ctx, w.candidate, j, lost)
	switch {
	case len(j.lacks) > 0:
		j.skipped = skipFields
		return
	case j.live.Failure == authz.FailureDuplicateKey || j.candidate.Failure == authz.FailureDuplicateKey:
		j.skipped = skipDuplicate
		return
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
	w.examine(ctx, j)
}

// decideBy returns the decision of a side on an entry, and adds what the entry lacks of that which the side
// asked for.
func (w *worker) decideBy(ctx context.Context, s *side, j *judgement, lost []lostField) authz.Decision {
	if len(lost) == 0 {
		return s.decide(ctx, j.request, w.conditions())
	}
	asked := &fieldUse{side: s, lost: lost}
	if len(s.source.GetExemptedProjects()) > 0 {
		asked.project()
	}
	d := s.decide(ctx, watched(j.request, j.input, asked), w.conditions())
	j.lacks = append(j.lacks, asked.missing()...)
	return d
}

// readsBodies reports whether one of the policies may read bodies.
func (w *worker) readsBodies() bool {
	return w.live.compiled.MayReadBody() || w.candidate.compiled.MayReadBody()
}

// unanswered reports whether a decision hangs on an external service.
func unanswered(d authz.Decision) bool {
	return d.Failure == authz.FailureNotCalled || d.Failure == authz.FailureExternal
}
