package sidecar_test

import (
	"fmt"
	"strconv"
	"testing"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/rehearsal"
	"understudy/authz/sidecar"
	"understudy/cmd/testkit"
)

func TestPreviewLogSyntax(t *testing.T) {
	for _, s := range []string{"all", "differing", "sampled:0", "sampled:0.01", "sampled:1"} {
		if _, err := rehearsal.ParsePreviewLog(s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	for _, s := range []string{"", "none", "sampled", "sampled:", "sampled:1.1", "sampled:-1", "sampled:NaN", "0.5", "all:1"} {
		if _, err := rehearsal.ParsePreviewLog(s); err == nil {
			t.Errorf("%q is taken", s)
		}
	}
}

// TestRecordsOfEqualOutcomeAreChosen by the user; what differs is always recorded, and
// everything is counted.
func TestRecordsOfEqualOutcomeAreChosen(t *testing.T) {
	const requests = 400
	for _, c := range []struct {
		which       string
		least, most int
		rate        string
	}{
		{"all", requests, requests, ""},
		{"differing", 0, 0, ""},
		{"sampled:0.5", requests / 4, requests * 3 / 4, "0.5"},
	} {
		which, err := rehearsal.ParsePreviewLog(c.which)
		if err != nil {
			t.Fatal(err)
		}
		feed := newFeed()
		feed.put(webName, authz.PolicyState{
			Policy:      policy("a", allowIf(onlyGET)),
			Experiments: []*adminpb.PolicyExperiment{experiment("same", "b", allowIf(onlyGET)), experiment("other", "c", allowIf(onlyPOST))},
		})
		m := newMeter()
		rec := newRecording()
		s, stop := startWith(t, feed, rec, func(config *sidecar.Config) {
			config.Meters, config.Recorder = m, rehearsal.NewRecorder(recordingProvider(rec), which)
		})
		testkit.Closed(t, "s is ready", s.Ready())
		for i := range requests {
			r := request("GET", nil)
			r.ID = "id" + strconv.Itoa(i)
			s.Check(t.Context(), r)
		}
		stop()
		got := map[string]int{}
		for _, r := range rec.await(t, 0) {
			difference := r.attributes["understudy.preview.difference"]
			got[difference]++
			if rate := r.attributes["understudy.preview.sample_rate"]; difference == "UNCHANGED" && rate != c.rate || difference != "UNCHANGED" && rate != "" {
				t.Errorf("%s: the sample rate of a record of %s is %q", c.which, difference, rate)
			}
		}
		if n := got["UNCHANGED"]; n < c.least || n > c.most {
			t.Errorf("%s: %d records of equal outcome, want %d to %d", c.which, n, c.least, c.most)
		}
		if got["NEWLY_DENIED"] != requests {
			t.Errorf("%s: %d records of %d that differ", c.which, got["NEWLY_DENIED"], requests)
		}
		counted := fmt.Sprint(m.count(t, "understudy.preview.comparisons", label("difference", "UNCHANGED"), label("policy_result", "ALLOW")),
			m.count(t, "understudy.preview.comparisons", label("difference", "NEWLY_DENIED"), label("policy_result", "ALLOW")))
		if want := fmt.Sprint(requests, requests); counted != want {
			t.Errorf("%s: counted are %s, want %s", c.which, counted, want)
		}
	}
}
