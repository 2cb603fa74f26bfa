package sidecar_test

import (
	"encoding/json"
	"fmt"
	"testing"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/decisionlog"
	"understudy/authz/sidecar"
	"understudy/cmd/testkit"
)

// sampledEvent is what an event says of the sample that it is in.
type sampledEvent struct {
	ID       string `json:"decision_id"`
	Sampling struct {
		Rate   float64 `json:"rate"`
		KeptBy string  `json:"kept_by"`
	} `json:"sampling"`
	Metrics map[string]int64 `json:"metrics"`
}

// TestASampleOfTheDecisionLog leaves out allowed decisions by chance, and never one that is
// denied, or that one of two experiments decides otherwise: that is logged once.
func TestASampleOfTheDecisionLog(t *testing.T) {
	const allowed, differing, denied = 400, 20, 30
	for _, rate := range []float64{0, 0.25} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			feed, rec, m := newFeed(), newRecording(), newMeter()
			feed.put(webName, authz.PolicyState{
				Policy: policy("live", allowIf(`input.method in {"GET", "PUT"}`)),
				Experiments: []*adminpb.PolicyExperiment{
					experiment("one", "1", allowIf(onlyGET)), experiment("two", "2", allowIf(onlyGET)), experiment("same", "3", allowIf(`input.method in {"PUT", "GET"}`)),
				},
			})
			s, stop := startWith(t, feed, newRecording(), func(c *sidecar.Config) {
				c.Meters = m
				logTo(rec, func(c *decisionlog.Config) { c.Sample = &rate })(c)
			})
			defer stop()
			testkit.Closed(t, "s is ready", s.Ready())
			want := make(map[string]string)
			for method, n := range map[string]int{"GET": allowed, "PUT": differing, "POST": denied} {
				for i := range n {
					r := request(method, nil)
					r.ID = fmt.Sprint(method, i)
					s.Check(t.Context(), r)
					switch {
					case method == "POST":
						want[r.ID] = "denied"
					case authz.Sampled(r.ID, rate):
						want[r.ID] = "chance"
					case method == "PUT":
						want[r.ID] = "difference"
					}
				}
			}
			seen := make(map[string]bool)
			rec.await(t, len(want))
			stop()
			for _, record := range rec.await(t, 0) {
				var e sampledEvent
				if err := json.Unmarshal([]byte(record.body), &e); err != nil {
					t.Fatal(err)
				}
				if seen[e.ID] || e.Sampling.KeptBy != want[e.ID] || e.Sampling.Rate != rate || record.attributes["understudy.decision_log.kept_by"] != want[e.ID] {
					t.Errorf("the event of %s says %+v, want %q at %v, once", e.ID, e.Sampling, want[e.ID], rate)
				}
				if took := e.Metrics["timer_server_handler_ns"]; (took == 0) != (e.Sampling.KeptBy == "difference") {
					t.Errorf("the event of %s, kept by %s, has a time of %d", e.ID, e.Sampling.KeptBy, took)
				}
				seen[e.ID] = true
			}
			counted := func(why string) int64 { return m.count(t, "understudy.decision_log.sampled", label("kept_by", why)) }
			if sum := counted("chance") + counted("left_out"); counted("denied") != denied || sum != allowed+differing {
				t.Errorf("%d denied and %d allowed are counted, want %d and %d", counted("denied"), sum, denied, allowed+differing)
			}
			if n := float64(counted("chance")) / (allowed + differing); n < rate-0.1 || n > rate+0.1 {
				t.Errorf("chance has kept %v of them, want about %v", n, rate)
			}
		})
	}
}

// TestAnUnsampledDecisionLog says nothing of samples.
func TestAnUnsampledDecisionLog(t *testing.T) {
	feed, rec := newFeed(), newRecording()
	feed.put(webName, authz.PolicyState{Policy: policy("live", allowIf(onlyGET)), Experiments: []*adminpb.PolicyExperiment{experiment("none", "1", allowIf("false"))}})
	s, previews := start(t, feed, logTo(rec))
	testkit.Closed(t, "s is ready", s.Ready())
	s.Check(t.Context(), request("GET", nil))
	previews.await(t, 1)
	var event map[string]any
	if err := json.Unmarshal([]byte(rec.await(t, 1)[0].body), &event); err != nil || event["sampling"] != nil {
		t.Errorf("the event is %v (%v)", event, err)
	}
}
