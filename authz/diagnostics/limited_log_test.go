package diagnostics_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"understudy/authz/diagnostics"
	"understudy/authz/diagnostics/logtest"
)

// TestALimitedLogLosesNoCount logs ten lines at once, where three may be, and one more
// when all is quiet again.
func TestALimitedLogLosesNoCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &logtest.Buffer{}
		l := diagnostics.NewLimitedLog(slog.New(slog.NewTextHandler(out, nil)), 3, time.Minute)
		say := func(i int) { l.Log(t.Context(), slog.LevelWarn, "oops", slog.Int("i", i)) }
		for i := range 10 {
			say(i)
		}
		if got := strings.Count(out.String(), "oops"); got != 3 {
			t.Errorf("%d lines at once, want 3:\n%s", got, out.String())
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := out.String(); strings.Count(got, "oops") != 4 || !strings.Contains(got, "i=9 left_out=6\n") {
			t.Errorf("after a minute there are\n%s", got)
		}
		say(10)
		time.Sleep(time.Hour)
		synctest.Wait()
		say(11)
		got := out.String()
		if strings.Count(got, "oops") != 6 || strings.Count(got, "left_out") != 1 || !strings.Contains(got, "level=WARN msg=oops i=11\n") {
			t.Errorf("in the end there are\n%s", got)
		}
		time.Sleep(time.Hour) // no timer outlives the test
	})
}
