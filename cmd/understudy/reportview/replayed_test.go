package reportview_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
	"understudy/cmd/understudy/reportview"
	"understudy/cmd/understudy/terminal"
)

// begun is a report right after the start of a preview: nothing has come since, and what was
// kept in memory is replayed.
func begun() *adminpb.Report {
	to := time.Date(2026, 11, 22, 10, 32, 5, 0, time.UTC)
	return &adminpb.Report{
		Name: tightened().Name, NodeCount: 1, ReportingNodeCount: 1,
		Replayed: &adminpb.Report_ReplayedReport{
			Counts:      &adminpb.Report_ReportCounts{RequestCount: 1200, UnchangedCount: 1196, NewlyDeniedCount: 3, FailedCount: 1, DroppedCount: 2},
			Differences: []*adminpb.Report_Difference{ordersDenied()}, OtherDifferences: []*adminpb.Report_KindCount{{Kind: adminpb.Report_FAILED, RequestCount: 1}},
			FirstTime: timestamppb.New(to.Add(-40 * time.Minute)), LastTime: timestamppb.New(to),
		},
	}
}

// TestReplayedIsShownApart: what it looks like, alone and next to what was compared.
func TestReplayedIsShownApart(t *testing.T) {
	both := tightened()
	both.Replayed = begun().Replayed
	for _, c := range []struct {
		file, format string
		report       *adminpb.Report
		options      reportview.Options
	}{
		{"replayed.txt", "text", begun(), reportview.Options{Width: 80, Height: 24}},
		{"replayed_screen.txt", "text", both, reportview.Options{Width: 80, Height: 24}},
		{"replayed.md", "markdown", begun(), reportview.Options{}},
		{"replayed.xml", "junit", begun(), reportview.Options{}},
	} {
		var out bytes.Buffer
		if err := reportview.Write(&out, c.format, c.report, c.options); err != nil {
			t.Fatal(err)
		}
		golden(t, c.file, out.Bytes())
	}
	if got, want := verdict.Of(begun()).String(), verdict.Of(&adminpb.Report{}).String(); got != want {
		t.Errorf("the verdict on what was replayed alone is %q, want %q", got, want)
	}
}

// TestReplayedFits: with what was replayed, too, no terminal has to wrap or scroll, and what
// others wrote does not control it.
func TestReplayedFits(t *testing.T) {
	r := varied()
	r.Replayed = begun().Replayed
	for range 50 {
		d := ordersDenied()
		d.Path, d.Reason = "/\x1b[2J|<script>"+strings.Repeat("long-", 30), "\x1b[2J\n# [x](http://evil)"
		r.Replayed.Differences = append(r.Replayed.Differences, d)
	}
	for _, width := range []int{20, 80, 132} {
		for _, height := range []int{5, 24, 50} {
			lines := reportview.Lines(r, reportview.Options{Width: width, Height: height})
			if len(lines) >= height {
				t.Errorf("%dx%d: got %d lines", width, height, len(lines))
			}
			for _, l := range lines {
				if n := terminal.Columns(l); n > width || strings.Contains(l, "\x1b") {
					t.Errorf("%dx%d: got %d columns in %q", width, height, n, l)
				}
			}
		}
	}
	var out bytes.Buffer
	if err := reportview.Markdown(&out, r, reportview.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, unwanted := range []string{"<script", "](http", "\x1b", "\n# "} {
		if strings.Contains(out.String(), unwanted) {
			t.Errorf("got %q in\n%s", unwanted, out.String())
		}
	}
}
