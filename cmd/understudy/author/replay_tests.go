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
	options := witness.Options{Live: r.live.policy, Candidate: r.candidate.policy, For: replay.Candidate, File: f.tests}
	if f.testsFor == "live" {
		options.For = replay.Live
	}
	made, err := witness.Make(ctx, options, r.result.Witnesses)
	if err != nil {
		return fmt.Errorf("--tests: %w", err)
	}
	for i, why := range made.Left {
		if i == maxLeft {
			fmt.Fprintf(f.client.Err, "note: and %s more\n", count(int64(len(made.Left)-i), "group"))
			break
		}
		fmt.Fprintln(f.client.Err, "note: no test of "+terminal.Line(why))
	}
	if made.Count == 0 {
		fmt.Fprintf(f.client.Err, "note: there is no test to write to %s\n", f.tests)
		return nil
	}
	if err := os.WriteFile(f.tests, []byte(made.Module), 0o644); err != nil {
		return fmt.Errorf("--tests: %w", err)
	}
	fmt.Fprintf(f.client.Err, "%s written to %s: passed by the %s, failed by the other policy\n", testCount(made.Count), f.tests, options.For)
	return nil
}
