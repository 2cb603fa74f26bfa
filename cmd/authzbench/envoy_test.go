//go:build realenvoy

package main

import (
	"os"
	"strings"
	"testing"
)

// TestThroughEnvoy runs the command with the Envoy of $ENVOY.
func TestThroughEnvoy(t *testing.T) {
	if os.Getenv("ENVOY") == "" {
		t.Fatal("ENVOY names no program; .ci/envoy prints one")
	}
	table, r := execute[struct{ Policies []envoyPolicy }](t, "envoy", "--policy", "rbac", "--experiments", "0,1",
		"--rounds", "1", "--duration", "200ms", "--warmup", "10ms", "--rate", "100")
	for _, want := range []string{"| no filter |", "| noop |", "| understudy-0 |", "| understudy-1 |"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q:\n%s", want, table)
		}
	}
	for i, s := range r.Policies[0].Series {
		sample := s.Samples[0]
		if sample.Envoy <= 0 || (sample.Server > 0) != (i > 0) || sample.Throughput <= 0 || sample.P50 <= 0 || sample.Errors > 0 {
			t.Errorf("%s: a sample lacks something: %+v", s.Server, sample)
		}
		// Nobody decides in the first two; the others decide some one way, some the other.
		if decided := sample.Allowed < 1 && sample.Allowed > 0; decided != (i > 1) {
			t.Errorf("%s: %.0f%% were allowed", s.Server, 100*sample.Allowed)
		}
	}
}
