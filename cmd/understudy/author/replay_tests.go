package author

import (
	"context"
	"fmt"
	"os"

	"understudy/authz/replay"
	"understudy/authz/witness"
	"understudy/cmd/understudy/terminal"
)

// maxLeft is how many of the groups without a test are named.
const maxLeft = 20

// writeTests writes a test of each group of differences, as --tests asks for, and says what it
// has written. There is no file if there is no test: an empty one would look like success.
func (f *replayFlags) writeTests(ctx context.Context, r *replayed) error {
	if f.tests == "" || r.interrupted {
		return nil
	}
	options := witness.Options{Live: r.live.policy, Candidate: r.candidate.policy, For: replay.Side(f.testsFor), File: f.tests}
	made, err := witness.Make(ctx, options, r.result.Witnesses)
	if err != nil {
		return fmt.Errorf("--tests: %w", err)
	}
	left := r.unwitnessed(made.Left)
	for i, why := range left {
		if i == maxLeft {
			fmt.Fprintf(f.client.Err, "note: and %s more\n", count(int64(len(left)-i), "group"))
			break
		}
		fmt.Fprintln(f.client.Err, "note: no test of "+terminal.Line(why))
	}
	if made.Count == 0 {
		fmt.Fprintf(f.client.Err, "note: nothing was written to %s: %s\n", f.tests, r.whyNoTest(left))
		return nil
	}
	if err := os.WriteFile(f.tests, []byte(made.Module), 0o644); err != nil {
		return fmt.Errorf("--tests: %w", err)
	}
	fmt.Fprintf(f.client.Err, "%s written to %s: passed by %s\n", testCount(made.Count), f.tests, passedBy[options.For])
	return nil
}

// passedBy says with whom the tests of a side pass, and that they were run.
var passedBy = map[replay.Side]string{
	replay.Live:      "the live policy, failed by the candidate",
	replay.Candidate: "the candidate, failed by the live policy",
}

// unwitnessed adds to the groups of which no test could be made those of which none was tried.
func (r *replayed) unwitnessed(left []string) []string {
	for _, u := range r.result.Unwitnessed {
		left = append(left, witness.Label(u.Method, u.Path, u.DecisionID)+": "+u.Reason)
	}
	return left
}

// whyNoTest says why there is no test at all.
func (r *replayed) whyNoTest(left []string) string {
	switch {
	case len(left) > 0:
		return "of none of the groups that differ a test could be made"
	case r.result.Compared == 0:
		return "no entry could be compared"
	default:
		return "both policies decide all that was compared alike"
	}
}
