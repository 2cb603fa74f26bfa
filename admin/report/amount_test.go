package report_test

import (
	"testing"

	"understudy/admin/report"
)

// TestCallers: up to 32 callers are counted, more are estimated, which the text says.
func TestCallers(t *testing.T) {
	for _, test := range []struct {
		n    int64
		text string
	}{
		{0, "0 callers"}, {1, "1 caller"}, {32, "32 callers"},
		{33, "about 33 callers"}, {40, "about 40 callers"}, {316, "about 320 callers"}, {12_345, "about 12,000 callers"},
	} {
		if got := report.CountedCallers(test.n); got != test.text {
			t.Errorf("%d: got %q, want %q", test.n, got, test.text)
		}
	}
}
