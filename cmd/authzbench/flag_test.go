package main

import (
	"strings"
	"testing"
)

func TestRate(t *testing.T) {
	for text, want := range map[string]float64{"2000": 2000, "50%": 500, "0": 0, "0.5%": 5, "1e3": 1000} {
		var r rate
		if err := r.Set(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if got := r.of(1000); got != want {
			t.Errorf("%s of 1000 is %v; want %v", text, got, want)
		}
		again := rate{}
		if err := again.Set(r.String()); err != nil || again != r {
			t.Errorf("%s is written %s", text, &r)
		}
	}
	for _, text := range []string{"", "x", "-1", "100%", "150%", "NaN", "2e6", "%"} {
		var r rate
		if err := r.Set(text); err == nil {
			t.Errorf("%q is a rate: %v", text, r)
		}
	}
}

func TestProcessors(t *testing.T) {
	for text, want := range map[string]string{"0": "0", "0,2-4": "0,2,3,4", "3,1": "1,3"} {
		var l cpuList
		if err := l.Set(text); err != nil || l.String() != want {
			t.Errorf("%s is %s (%v); want %s", text, &l, err, want)
		}
	}
	for _, text := range []string{"", "a", "2-1", "-1", "1024", "1,,2"} {
		var l cpuList
		if err := l.Set(text); err == nil {
			t.Errorf("%q is a list of processors: %s", text, &l)
		}
	}
}

func TestTarget(t *testing.T) {
	got, err := parseTarget("opa=127.0.0.1:9191,pid=42,metrics=http://127.0.0.1:8282/metrics")
	if err != nil || got.name != "opa" || got.address != "127.0.0.1:9191" || got.pid != 42 || got.metrics != "http://127.0.0.1:8282/metrics" {
		t.Errorf("the target is %+v (%v)", got, err)
	}
	for _, text := range []string{"", "opa", "=x", "opa=", "opa=x,pid=0", "opa=x,pid=x", "opa=x,colour=red"} {
		if _, err := parseTarget(text); err == nil {
			t.Errorf("%q is a target", text)
		}
	}
}

func TestMetricsPage(t *testing.T) {
	page, err := parseMetrics(strings.NewReader(`# HELP a_total Something.
a_total{x="1",y="b c"} 2
a_total{x="2",y="d"} 3e0
a_total_other 7
b 1.5
`))
	if err != nil {
		t.Fatal(err)
	}
	if got := page.sum("a_total"); got != 5 {
		t.Errorf("the sum is %v; want 5", got)
	}
	if got := page.sumWith("a_total", `x="2"`); got != 3 {
		t.Errorf("the sum of one label is %v; want 3", got)
	}
	if got := page.sum("b"); got != 1.5 {
		t.Errorf("b is %v", got)
	}
}
