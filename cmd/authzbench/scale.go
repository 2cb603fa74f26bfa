package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
)

// scaling measures what does not happen on every request: commits on many sidecars,
// large policies, and starts. These are measured as times; only processor time per
// check is a ratio.
type scaling struct {
	comparison
	only     []string
	sidecars []int
	// each is the number of sidecars in one process: 100 processes would measure the
	// scheduler of one machine, while real sidecars run on 100 machines.
	each    int
	commits int
	starts  int
	redis   string
	// module and data are the sizes of the large policy, in bytes.
	module int
	data   int
}

// scaleReport is everything that scaling found. Parts left out by --only are empty.
type scaleReport struct {
	reportHead
	Commits []commitReport `json:"commits"`
	Large   []largeReport  `json:"large"`
	Starts  *startReport   `json:"starts"`
	// Evidence is what publishing and reading evidence cost.
	Evidence *evidenceReport `json:"evidence"`
}

func newScale() *cobra.Command {
	s := &scaling{}
	cmd := &cobra.Command{
		Use:   "scale",
		Short: "Measure commits on many sidecars, large policies, and the start",
		Long: `Measure what does not happen on every request:

  commits  the time from asking for a commit until each sidecar enforces it, with
           --sidecars of them on one private Redis; they run in this program's
           processes, --sidecars-per-process in each, as the binary runs its own
  large    how long a large policy takes to be in force, what memory that takes, and
           what live traffic of a small policy feels of it
  start    from starting the process to being ready, with a policy in its file
  evidence what Redis needs for the evidence that 1,000 simulated nodes publish of three
           experiments, and how soon a report of it is read`,
		Example: `  authzbench scale
  authzbench scale --only commits --sidecars 100 --commits 200
  authzbench scale --only large --server-cpus 0-1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.do(cmd) },
	}
	s.bind(cmd.Flags())
	_ = cmd.Flags().MarkHidden("policy")
	f := cmd.Flags()
	f.StringSliceVar(&s.only, "only", []string{"commits", "large", "start", "evidence"}, "what to measure")
	f.IntSliceVar(&s.sidecars, "sidecars", []int{1, 10, 100}, "numbers of sidecars on one Redis")
	f.IntVar(&s.each, "sidecars-per-process", 10, "how many of them share a process")
	f.IntVar(&s.commits, "commits", 50, "commits for each number of sidecars")
	f.IntVar(&s.starts, "starts", 10, "how often the server is started")
	f.StringVar(&s.redis, "redis-server", "redis-server", "the binary of Redis")
	f.IntVar(&s.module, "module-bytes", 1<<20, "the size of the large policy's module")
	f.IntVar(&s.data, "data-bytes", 10<<20, "the size of the large policy's data")
	return cmd
}

// do runs the parts one after the other, then writes one report.
func (s *scaling) do(cmd *cobra.Command) error {
	if err := errors.Join(s.validate(), s.validateParts()); err != nil {
		return err
	}
	if err := s.begin(cmd); err != nil {
		return err
	}
	defer s.end()
	start, k, err := s.prepare(cmd.Context(), []string{"understudy"})
	if err != nil {
		return err
	}
	p, err := newPolicy("prefix", k)
	if err != nil {
		return err
	}
	result := &scaleReport{reportHead: s.head()}
	for _, part := range s.only {
		if err := s.part(cmd.Context(), part, start, p, k, result); err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
	}
	return s.publish(result.write, result)
}

func (s *scaling) validateParts() error {
	for _, part := range s.only {
		if part != "commits" && part != "large" && part != "start" && part != "evidence" {
			return fmt.Errorf("--only: there is no %q; there are commits, large, start and evidence", part)
		}
	}
	if s.each < 1 || s.commits < 1 || s.starts < 1 || len(s.sidecars) == 0 || slices.Min(s.sidecars) < 1 {
		return errors.New("--sidecars, --sidecars-per-process, --commits and --starts: they are above zero")
	}
	return nil
}

// part runs one part and puts what it found into result.
func (s *scaling) part(ctx context.Context, name string, start *starter, p policySpec, k *keys, result *scaleReport) (err error) {
	switch name {
	case "commits":
		result.Commits, err = s.measureCommits(ctx, start, p)
	case "large":
		result.Large, err = s.measureLarge(ctx, start, p, k)
	case "start":
		result.Starts, err = s.measureStarts(ctx, start, p)
	case "evidence":
		result.Evidence, err = s.measureEvidence(ctx)
	}
	return err
}

// startReport is how long starts took, from the process to being ready.
type startReport struct {
	Ready []time.Duration `json:"ready_ns"`
}

// measureStarts starts the server again and again on one file. The first start makes
// the policy and is not counted: an empty store is not what a sidecar starts with.
func (s *scaling) measureStarts(ctx context.Context, start *starter, p policySpec) (*startReport, error) {
	folder, err := os.MkdirTemp(s.folder, "start-")
	if err != nil {
		return nil, err
	}
	store := "bolt://" + folder + "/store.db"
	out := &startReport{}
	for i := range s.starts + 1 {
		s.progress(fmt.Sprintf("start %d of %d", i, s.starts))
		n, err := start.understudies[0].start(ctx, start.cpus, s.folder, "--store", store)
		if err != nil {
			return nil, err
		}
		took, err := n.ready(ctx)
		if err == nil && i == 0 {
			err = n.putPolicy(ctx, p)
		}
		n.stop()
		if err != nil {
			return nil, err
		}
		if i > 0 { // the first had no policy
			out.Ready = append(out.Ready, took)
		}
	}
	return out, nil
}

// ready waits until a server is ready and returns for how long it has been running. It
// asks every millisecond, so the result is at most that much too large. Ready means
// that the first snapshot is compiled (/readyz).
func (n *node) ready(ctx context.Context) (time.Duration, error) {
	for deadline := time.Now().Add(groupTimeout); time.Now().Before(deadline); sleepPrecisely(lookEvery) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.health+"/readyz", nil)
		if err != nil {
			return 0, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return 0, err
		}
		_ = response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return time.Since(n.started), nil
		}
	}
	return 0, fmt.Errorf("%s is not ready after %s", n.name, groupTimeout)
}

// write writes the report as Markdown.
func (r *scaleReport) write(w io.Writer) {
	r.writeTo(w)
	if len(r.Commits) > 0 {
		fmt.Fprint(w, "\nFrom asking for a commit until a sidecar enforces it; all sidecars on one Redis.\n\n"+
			"| sidecars | commits | p50 | p99 | the last sidecar, p50 | most | answered, p50 |\n"+
			"| ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	}
	for _, c := range r.Commits {
		fmt.Fprintf(w, "| %d | %d | %s | **%s** | %s | %s | %s |\n", c.Sidecars, len(c.Last),
			inMillis(c.Each.percentile(.5)), inMillis(c.Each.percentile(.99)), inMillis(medianOf(c.Last)),
			inMillis(c.Each.percentile(1)), inMillis(medianOf(c.Answered)))
	}
	if len(r.Large) > 0 {
		fmt.Fprint(w, "\nA large policy is replaced again and again beside live traffic of a small one. "+
			"p99 × is the ratio to that without.\n\n"+
			"| large policy | in force after | memory before | memory after | p99 | p99 × |\n| --- | ---: | ---: | ---: | ---: | --- |\n")
	}
	for _, l := range r.Large {
		l.writeRow(w)
	}
	r.Evidence.write(w)
	if r.Starts != nil {
		numbers := mapped(r.Starts.Ready, func(d time.Duration) float64 { return d.Seconds() * 1000 })
		s := spreadOfNumbers(numbers)
		fmt.Fprintf(w, "\nStart to ready, %d times: median **%.0f ms**, %.0f to %.0f ms.\n", len(numbers), s.middle, s.least, s.most)
	}
}

func inMillis(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/1e6) }
