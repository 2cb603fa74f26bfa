package publisher_test

import (
	"testing"
	"time"

	"understudy/authz"
	"understudy/authz/evidence/publisher"
)

// TestIntervals: a location of up to 1,000 nodes makes at most 500 writes a second, one of more no
// more publications, and a node that reports by them never counts as dead for a report
// that is late or lost.
func TestIntervals(t *testing.T) {
	for _, nodes := range []int{0, 1, 2, 500, 501, 1000, 5000, 100_000} {
		intervals := &publisher.Intervals{}
		intervals.SetNodes(nodes)
		reports, publications := float64(nodes)/intervals.Report().Seconds(), float64(nodes)/intervals.Publication().Seconds()
		if publications > 250.5 || nodes <= 1000 && reports+publications > 501 {
			t.Errorf("%d nodes make %.1f reports and %.1f publications a second", nodes, reports, publications)
		}
		if intervals.Publication() < 2*time.Second || intervals.Report() < 2*time.Second {
			t.Errorf("%d nodes report every %v and publish every %v", nodes, intervals.Report(), intervals.Publication())
		}
		if 22*intervals.Report() > 10*authz.NodeLifetime {
			t.Errorf("a node of %d counts as dead after %v, and reports every %v", nodes, authz.NodeLifetime, intervals.Report())
		}
	}
	for range 1000 {
		if d := publisher.Jittered(time.Second); d < 900*time.Millisecond || d > 1100*time.Millisecond {
			t.Fatalf("a second became %v", d)
		}
	}
}
