package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// execute runs a command on the real servers, for a moment, and returns what it
// writes and the report.
func execute[R any](t *testing.T, arguments ...string) (string, R) {
	t.Helper()
	binary, err := built()
	if err != nil {
		t.Fatal(err)
	}
	var out, log bytes.Buffer
	file := filepath.Join(t.TempDir(), "report.json")
	root := newRoot()
	root.SetOut(&out)
	root.SetErr(&log)
	root.SetArgs(append(arguments, "--prime", "10ms", "--understudy", binary, "--json", file))
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(arguments, " "), err, &log)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var report R
	if err := json.Unmarshal(content, &report); err != nil {
		t.Fatal(err)
	}
	return out.String(), report
}

func TestRun(t *testing.T) {
	table, r := execute[struct{ Policies []policyReport }](t, "run", "--policy", "prefix", "--rounds", "2", "--duration", "100ms", "--warmup", "10ms", "--rate", "200")
	for _, want := range []string{"authzbench", "| prefix | noop |", "| prefix | stock |", "| prefix | understudy |", "cores"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q:\n%s", want, table)
		}
	}
	if len(r.Policies) != 1 || len(r.Policies[0].Series) != 3 {
		t.Fatalf("the report is %+v", r)
	}
	for _, s := range r.Policies[0].Series {
		for _, sample := range s.Samples {
			if sample.CPU <= 0 || sample.CPUOpen <= 0 || sample.Throughput <= 0 || sample.P50 <= 0 || sample.P999 < sample.P50 ||
				sample.Allocations <= 0 || sample.Memory <= 0 || sample.Rate != 200 || sample.Errors > 0 {
				t.Errorf("%s: a sample lacks something: %+v", s.Server, sample)
			}
		}
	}
}

func TestPreview(t *testing.T) {
	table, r := execute[struct{ Policies []previewPolicy }](t, "preview", "--policy", "rbac", "--experiments", "0,2", "--otlp",
		"--rounds", "1", "--duration", "200ms", "--warmup", "10ms", "--rate", "100")
	if !strings.Contains(table, "Each record is exported over OTLP.") {
		t.Errorf("the table does not mention the export:\n%s", table)
	}
	series := r.Policies[0].Series
	if len(series) != 3 || series[0].Samples[0].Full <= 0 {
		t.Fatalf("the report is %+v", r)
	}
	if s := series[1].Samples[0]; s.Checks == 0 || s.Compared+s.Records != 0 {
		t.Errorf("without experiments: %+v", s)
	}
	// Each request is compared twice or counted as dropped; each comparison is a record
	// or counted as lost.
	if s := series[2].Samples[0]; s.Compared+s.Dropped != 2*s.Checks || s.Records+s.Lost != s.Compared || s.Records == 0 {
		t.Errorf("with two experiments: %+v", s)
	}
}

func TestCommit(t *testing.T) {
	table, r := execute[struct{ Policies []committedPolicy }](t, "commit", "--policy", "list", "--rounds", "2", "--seconds", "1",
		"--duration", "100ms", "--rate", "100")
	if len(r.Policies) != 1 || len(r.Policies[0].Rounds) != 2 {
		t.Fatalf("the report is %+v", r)
	}
	for _, round := range r.Policies[0].Rounds {
		if round.Took <= 0 || len(round.Seconds) != 2 || round.Seconds[0].Checks+round.Seconds[0].Failed != 100 || round.Seconds[1].P99 <= 0 {
			t.Errorf("a round lacks something: %+v", round)
		}
	}
	if !strings.Contains(table, "| list | 100 | ") || strings.Count(table, " of 200 |") != 2 {
		t.Errorf("the table lacks the row of list:\n%s", table)
	}
}

// TestForeignTarget lets a server join that was started with a folder of policies.
func TestForeignTarget(t *testing.T) {
	folder := t.TempDir()
	if err := writePolicies(folder); err != nil {
		t.Fatal(err)
	}
	k, err := readKeys(folder)
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPolicy("hs256", k)
	if err != nil {
		t.Fatal(err)
	}
	f, err := newTestStarter(t, "stock").start(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	defer f.stop()
	own := f.targets[0]
	_, r := execute[struct{ Policies []policyReport }](t, "run", "--policies", folder, "--policy", "hs256", "--servers", "noop,understudy",
		"--target", fmt.Sprintf("mine=%s,pid=%d,metrics=%s", own.address, own.pid, own.metrics),
		"--rounds", "1", "--duration", "50ms", "--warmup", "10ms", "--rate", "0")
	if s := r.Policies[0].Series; len(s) != 3 || s[2].Server != "mine" || s[2].Samples[0].CPU <= 0 || s[2].Samples[0].Allocations <= 0 {
		t.Errorf("the report is %+v", s)
	}
}

func TestMistakesAreTold(t *testing.T) {
	for _, arguments := range []string{
		"run --policy nobody", "run --traffic slow", "run --rounds 0", "run --servers opa", "run --target x", "run --rate 200%", "run --policies /nowhere --servers noop", "run extra",
		"preview --experiments 11", "commit --seconds 0", "commit --rate 0", "preview --rate 0", "nothing",
	} {
		root := newRoot()
		root.SetOut(&bytes.Buffer{})
		root.SetErr(&bytes.Buffer{})
		root.SetArgs(strings.Fields(arguments))
		if err := root.ExecuteContext(t.Context()); err == nil {
			t.Errorf("authzbench %s: no error", arguments)
		}
	}
}
