package main

import (
	"strings"
	"testing"
	"time"
)

// TestRatiosAreOfOneRound: what slows a whole round changes no ratio.
func TestRatiosAreOfOneRound(t *testing.T) {
	p := policyReport{Policy: "p", Series: []series{
		{Server: "noop", Samples: []sample{{CPU: 10 * time.Microsecond, Throughput: 90}, {CPU: 20 * time.Microsecond, Throughput: 50}, {CPU: 40 * time.Microsecond, Throughput: 25}}},
		{Server: "x", Samples: []sample{{CPU: 20 * time.Microsecond, Throughput: 45}, {CPU: 40 * time.Microsecond, Throughput: 25}, {CPU: 100 * time.Microsecond, Throughput: 5}}},
	}}
	var b strings.Builder
	p.writeRows(&b)
	for _, want := range []string{"| p | x | 40.0 µs | **2.00 (2.00–2.50)** | 25 | 0.50 (0.20–0.50) |", "| p | noop | 20.0 µs | **1.00 (1.00–1.00)** |"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the rows lack %q:\n%s", want, b.String())
		}
	}
}

func TestWarnings(t *testing.T) {
	calm := policyReport{Series: []series{{Server: "noop", Samples: []sample{{Allowed: 1}}}, {Server: "a", Samples: []sample{{Allowed: .5, Checks: 10000}}}, {Server: "b", Samples: []sample{{Allowed: .51, Checks: 10000}}}}}
	if got := calm.warnings(); len(got) > 0 {
		t.Errorf("the warnings are %q", got)
	}
	few := policyReport{Series: []series{{Server: "a", Samples: []sample{{Allowed: .5, Checks: 100}}}, {Server: "b", Samples: []sample{{Allowed: .6, Checks: 100}}}}}
	if got := few.warnings(); len(got) > 0 {
		t.Errorf("chance alone makes the warnings %q", got)
	}
	calm.Series[2].Samples[0] = sample{Allowed: .4, Checks: 10000, Errors: 2}
	if got := calm.warnings(); len(got) != 2 {
		t.Errorf("the warnings are %q; want one for errors and one for denials", got)
	}
}
