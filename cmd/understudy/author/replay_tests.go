package author

import (
	"context"
	"fmt"
	"os"

	"understudy/admin/report"
	"understudy/authz/replay"
	"understudy/authz/testgen"
	"understudy/cmd/understudy/terminal"
)

// maxLeft is how many of the groups without a test are named.
//
// The file has the tests; what has none is for a person to look at, and few are enough for that.
const maxLeft = 20

// writeTests writes a test of each group of differences, as --tests asks for, and says what it
// has written. There is no file if there is no test: an empty one would look like success.
//
// An interrupted replay writes none: which groups there are was not known yet.
func (f *replayFlags) writeTests(ctx context.Context, r *replayed) error {
	if f.tests == "" || r.interrupted {
		return nil
	}
	options := testgen.Options{Live: r.live.policy, Candidate: r.candidate.policy, For: replay.Side(f.testsFor), File: f.tests}
	made, err := testgen.Make(ctx, options, r.result.Examples)
	if err != nil {
		return fmt.Errorf("--tests: %w", err)
	}
	left := r.withoutExample(made.Left)
	for i, why := range left {
		if i == maxLeft {
			fmt.Fprintf(f.client.Err, "note: and %s more\n", report.Counted(int64(len(left)-i), "group"))
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
	fmt.Fprintf(f.client.Err, "%s written to %s: passed by %s\n", report.Counted(int64(made.Count), "test"), f.tests, passedBy[options.For])
	return nil
}

// passedBy says with whom the tests of a side pass, and that they were run.
//
// Package testgen runs each test with both policies before it is written.
var passedBy = map[replay.Side]string{
	replay.Live:      "the live policy, failed by the candidate",
	replay.Candidate: "the candidate, failed by the live policy",
}

// withoutExample adds to the groups of which no test could be made those of which none was tried.
//
// Such as a group whose requests are too large for a test.
func (r *replayed) withoutExample(left []string) []string {
	for _, u := range r.result.WithoutExample {
		left = append(left, testgen.Group{Method: u.Method, Path: u.Path, DecisionID: u.DecisionID}.String()+": "+u.Reason)
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
