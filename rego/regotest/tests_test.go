package regotest_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"understudy/rego"
	"understudy/rego/regotest"
)

// tested is a policy with tests of every outcome.
var tested = map[string]string{
	"policy.rego": `package authz

default allow := false

allow if input.user == data.owner

unused if input.other
`,
	"policy_test.rego": `package authz_test

import data.authz

test_owner if authz.allow with input.user as "ann"

test_stranger if {
	user := "eve"
	print("asking for", user)
	authz.allow with input.user as user
}

test_twice if true

test_twice if 1 == 2

todo_test_later if false

test_conflict if authz.both == 1

test_cases[name] if {
	some name, user in {"owner": "ann", "stranger": "eve", "": "ann"}
	authz.allow with input.user as user
}

test_value := {"a": true, "b": false}

test_helper(x) if x

test_set contains 1
`,
	"both.rego": "package authz\n\nboth := 1\n\nboth := count(input.x) if not input.y\n\nboth := 2\n",
}

func TestRunTests(t *testing.T) {
	report, err := regotest.Run(context.Background(), rego.Source{
		Modules: tested, Data: map[string]any{"owner": "ann"},
	}, regotest.Options{Print: true, Parallel: 4})
	if err != nil {
		t.Fatal(err)
	}
	const file = "policy_test.rego"
	want := []regotest.Test{
		{Name: "data.authz_test.test_owner", File: file, Row: 5, Outcome: regotest.Passed},
		{
			Name: "data.authz_test.test_stranger", File: file, Row: 7, Outcome: regotest.Failed,
			Reason: "policy_test.rego:10: authz.allow with input.user as user", Output: "asking for eve\n",
		},
		{Name: "data.authz_test.test_twice", File: file, Row: 13, Outcome: regotest.Passed},
		{Name: "data.authz_test.test_twice#01", File: file, Row: 15, Outcome: regotest.Failed, Reason: "policy_test.rego:15: 1 == 2"},
		{Name: "data.authz_test.todo_test_later", File: file, Row: 17, Outcome: regotest.Skipped},
		{Name: "data.authz_test.test_conflict", File: file, Row: 19, Outcome: regotest.Errored},
		{
			Name: "data.authz_test.test_cases", File: file, Row: 21, Outcome: regotest.Failed,
			Reason: "policy_test.rego:23: authz.allow with input.user as user",
			Cases:  map[string]regotest.Outcome{"owner": regotest.Passed, "stranger": regotest.Failed, "": regotest.Passed},
		},
		{
			Name: "data.authz_test.test_value", File: file, Row: 26, Outcome: regotest.Failed, Reason: "It is not true.",
			Cases: map[string]regotest.Outcome{"a": regotest.Passed, "b": regotest.Failed},
		},
		{Name: "data.authz_test.test_set", File: file, Row: 30, Outcome: regotest.Failed, Reason: "It is not true."},
	}
	got := report.Tests
	for i, test := range got {
		if test.Outcome == regotest.Errored {
			if !strings.Contains(test.Reason, "eval_conflict_error") {
				t.Errorf("the reason of %s is %q", test.Name, test.Reason)
			}
			got[i].Reason = ""
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(regotest.Test{}, "Duration")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestRunTestsChosen(t *testing.T) {
	report, err := regotest.Run(context.Background(), rego.Source{
		Modules: tested, Data: map[string]any{"owner": "ann"},
	}, regotest.Options{Run: regexp.MustCompile("owner|stranger"), Coverage: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Tests) != 2 || report.Tests[1].Output != "" {
		t.Errorf("%+v; want two tests, without what they print", report.Tests)
	}
	if diff := cmp.Diff([]int{7}, report.Coverage.NotCovered["policy.rego"]); diff != "" {
		t.Errorf("not covered, -want +got:\n%s", diff)
	}
	if p := report.Coverage.Percent; p <= 0 || p >= 100 {
		t.Errorf("%v%% is covered", p)
	}
}

// endlessTest is a test that never ends by itself.
const endlessTest = `package endless_test

test_endless if {
	some i in numbers.range(1, 100000)
	some j in numbers.range(1, 100000)
	i + j < 0
}
`

func TestRunTestsBounded(t *testing.T) {
	ctx := context.Background()
	source := rego.Source{Modules: map[string]string{"a.rego": endlessTest}}
	report, err := regotest.Run(ctx, source, regotest.Options{Timeout: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if got := report.Tests; len(got) != 1 || got[0].Outcome != regotest.Errored || got[0].Reason != "It takes longer than 10ms." {
		t.Errorf("a test without an end: %+v", got)
	}
	limited, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := regotest.Run(limited, source, regotest.Options{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("all of them: %v, want DeadlineExceeded", err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := regotest.Run(ended, source, regotest.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestRunTestsRestricted shows that a test reaches no further than a policy.
func TestRunTestsRestricted(t *testing.T) {
	for _, call := range []string{`http.send({"method": "GET", "url": "http://localhost"})`, `opa.runtime()`, `net.lookup_ip_addr("localhost")`} {
		_, err := regotest.Run(context.Background(), rego.Source{Modules: map[string]string{
			"a.rego": "package a_test\n\ntest_call if " + call,
		}}, regotest.Options{})
		var refused *rego.CompileError
		if !errors.As(err, &refused) || refused.Problems[0].Row != 3 {
			t.Errorf("%s: %v, want a CompileError in row 3", call, err)
		}
	}
}
