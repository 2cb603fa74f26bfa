package author

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/cache"
	"understudy/authz/replay"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/terminal"
	"understudy/rego"
)

// costReplay is what the requests of a log were asked.
//
// The static explanation says what may make requests different; this says what does, on real traffic.
type costReplay struct {
	// Entries is the number of decisions in the log, and Replayed that of the requests that were decided again.
	Entries  int64 `json:"entries"`
	Replayed int64 `json:"replayed"`
	// Repeated is how many of them gave no new answer: a cache has their decision.
	Repeated int64 `json:"repeated"`
	// Skipped are the other entries, and Broken the records that could not be read.
	Skipped []replay.Skipped `json:"notReplayed,omitempty"`
	Broken  int64            `json:"brokenRecords,omitempty"`
	// Questions are all that was asked, those with most new answers first.
	Questions []cache.AskedQuestion `json:"questions"`
}

// replayedDecisions is how many decisions are cached: as many as in a sidecar by default.
//
// A log of more distinct decisions than that shows what a sidecar would evict, too.
const replayedDecisions = 1 << 16

// replayCost decides the requests of a log by a policy of the server's ID, and counts what they are asked.
//
// The log is replayed with the policy on both sides: package replay reads it, leaves out what it lacks
// fields for, and hands over each request that could be decided.
func (f *explainCostFlags) replayCost(ctx context.Context, policy *adminpb.Policy, id string, causes []rego.Cause) (*costReplay, error) {
	files, err := recordings([]string{f.replay}, f.client.In)
	if err != nil {
		return nil, command.Usage(fmt.Errorf("--replay: %w", err))
	}
	compiled, err := authz.Compile(ctx, policy)
	if err != nil {
		return nil, err
	}
	asked, err := cache.NewAsked(compiled, replayedDecisions)
	if err != nil {
		return nil, err
	}
	progress := newReplayProgress(f.client.Err, files)
	result, err := replay.Run(ctx, replay.Options{
		Live: policy, Candidate: policy, Policy: id, Files: progress.files, Workers: runtime.GOMAXPROCS(0), Progress: progress.show, Strictness: replay.Strictness{DuplicateKeys: true},
		Compared: func(r *authz.Request) {
			// Shadow: no external service is called for it.
			asked.Count(ctx, r, authz.Conditions{Shadow: true, Default: authz.Deny, Timeout: mostReplayed})
		},
	})
	progress.end()
	if err != nil {
		return nil, fmt.Errorf("--replay: %w", err)
	}
	out := &costReplay{
		Entries: result.Entries, Replayed: asked.Requests, Repeated: asked.Known, Skipped: result.Skipped, Broken: result.Broken, Questions: asked.Questions(),
	}
	for i := range out.Questions {
		placeSealed(&out.Questions[i], causes)
	}
	return out, out.check(f.replay)
}

// mostReplayed is the longest time for one decision.
//
// A live decision has 100 ms. Here nobody waits, and a cost that is not known helps nobody.
const mostReplayed = 5 * time.Second

// check returns an error if nothing was replayed.
//
// Otherwise a file of another kind would look like a policy that costs nothing.
func (r *costReplay) check(file string) error {
	switch {
	case r.Entries == 0:
		return fmt.Errorf("--replay: there are no decisions in %s, and %s that could not be read. Is it a decision log, in JSON?", file, report.Counted(r.Broken, "record"))
	case r.Replayed == 0:
		return fmt.Errorf("--replay: no decision of %s can be replayed: %s", file, r.skipped())
	}
	return nil
}

// skipped says why entries were not replayed.
func (r *costReplay) skipped() string {
	var out []string
	for _, s := range r.Skipped {
		out = append(out, fmt.Sprintf("%s × %s", report.Number(s.Entries), s.Reason))
	}
	return strings.Join(out, "; ")
}

// placeSealed gives a question about the body or the query, which is asked before any rule is evaluated, the first place
// that reads it.
//
// The cache asks for the text of both at once, before it is known which rule reads them.
func placeSealed(q *cache.AskedQuestion, causes []rego.Cause) {
	for _, c := range causes {
		// The text of a question ends with what it is about.
		if q.File == "" && c.Kind == rego.CauseRead && strings.HasSuffix(q.Question, " "+c.What) {
			q.File, q.Row = c.File, c.Row
		}
	}
}

// mostQuestions is how many questions are shown.
const mostQuestions = 10

// print prints the questions as people read them.
func (r *costReplay) print(out io.Writer, file string) {
	fmt.Fprintf(out, "Of %s in %s, %s gave no new answer: with a cache their decision is known.", report.Counted(r.Replayed, "request"), terminal.Escape(file), r.share(r.Repeated))
	fmt.Fprintf(out, " %s had to be evaluated.\n", report.Number(r.Replayed-r.Repeated))
	if len(r.Skipped) > 0 {
		fmt.Fprintf(out, "Not replayed: %s.\n", r.skipped())
	}
	if r.Broken > 0 {
		fmt.Fprintf(out, "%s could not be read.\n", report.Counted(r.Broken, "record"))
	}
	if len(r.Questions) == 0 {
		return
	}
	fmt.Fprintln(out)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NEW\tASKED\tANSWERS\tPLACE\tQUESTION")
	shown := r.shown()
	for _, q := range shown {
		place := "-"
		if q.File != "" {
			place = fmt.Sprintf("%s:%d", q.File, q.Row)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", report.Number(q.New), report.Number(q.Asked), report.Number(int64(q.Answers)), terminal.Escape(place), terminal.Escape(q.Question))
	}
	_ = t.Flush()
	if more := r.Questions[len(shown):]; len(more) > 0 {
		n := int64(0)
		for _, q := range more {
			n += q.New
		}
		fmt.Fprintf(out, "and %s, with %s\n", report.Counted(int64(len(more)), "more question"), report.Counted(n, "new answer"))
	}
	fmt.Fprintln(out, "NEW is how often the answer was new after all before it, so that the request had to be evaluated: begin with the first of these places.")
}

// shown are the first questions, as far as they had new answers.
//
// Those without a new answer cost nothing.
func (r *costReplay) shown() []cache.AskedQuestion {
	n := 0
	for n < min(len(r.Questions), mostQuestions) && r.Questions[n].New > 0 {
		n++
	}
	return r.Questions[:n]
}

// share is a part of the requests: "800 (80.0 %)".
func (r *costReplay) share(n int64) string {
	return fmt.Sprintf("%s (%s)", report.Number(n), percent(float64(n)/float64(r.Replayed)))
}
