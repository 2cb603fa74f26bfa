package check_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// workflow is what the test reads of a workflow of this repository.
type workflow struct {
	Permissions map[string]string
	Jobs        map[string]struct {
		Timeout     int `yaml:"timeout-minutes"`
		Permissions map[string]string
		Steps       []struct {
			Uses, Run string
			With      map[string]any
		}
	}
}

var (
	// pinnedAction is an action at a commit: a tag can be moved.
	pinnedAction = regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40}$`)
	// usesLine is a step with the version that its commit is.
	usesLine    = regexp.MustCompile(`(?m)^.*uses: .*$`)
	namedAction = regexp.MustCompile(`uses: \S+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	// madeTarget is a target of the Makefile that a step makes, and startedScript a script of ours.
	madeTarget    = regexp.MustCompile(`(?m)^\s*make (\S+)`)
	startedScript = regexp.MustCompile(`(?m)^\s*(\.ci/\S+)`)
)

// TestWorkflows: each action is pinned to a commit, a job has a time limit and the permissions that it
// needs, and the targets and scripts that it runs are there.
func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob("../.github/workflows/*.yaml")
	if err != nil || len(files) != 2 {
		t.Fatalf("there are the workflows %v (%v); want that for tests and that for releases", files, err)
	}
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range usesLine.FindAllString(string(content), -1) {
			if !namedAction.MatchString(line) {
				t.Errorf("%s: %q does not name the version of its commit", file, strings.TrimSpace(line))
			}
		}
		checkWorkflow(t, file, content, string(makefile))
	}
}

func checkWorkflow(t *testing.T, file string, content []byte, makefile string) {
	t.Helper()
	var w workflow
	if err := yaml.Unmarshal(content, &w); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if w.Permissions == nil {
		t.Errorf("%s has the permissions that are usual; want those that it needs", file)
	}
	for name, job := range w.Jobs {
		if job.Timeout == 0 {
			t.Errorf("%s: %s has no timeout-minutes", file, name)
		}
		for _, s := range job.Steps {
			if s.Uses != "" && !pinnedAction.MatchString(s.Uses) {
				t.Errorf("%s: %s uses %s, which is not pinned to a commit", file, name, s.Uses)
			}
			if strings.HasPrefix(s.Uses, "actions/checkout@") && s.With["persist-credentials"] != false {
				t.Errorf("%s: %s leaves its credentials to all steps", file, name)
			}
			for _, problem := range scriptProblems(s.Run, makefile) {
				t.Errorf("%s: %s %s", file, name, problem)
			}
		}
	}
}

// scriptProblems returns what is wrong with the script of a step.
func scriptProblems(script, makefile string) (problems []string) {
	if strings.Contains(script, "${{") {
		problems = append(problems, "has an expression in a script: a name could write the script")
	}
	for _, target := range madeTarget.FindAllStringSubmatch(script, -1) {
		if !strings.Contains(makefile, "\n"+target[1]+":") {
			problems = append(problems, "makes "+target[1]+", which the Makefile does not have")
		}
	}
	for _, started := range startedScript.FindAllStringSubmatch(script, -1) {
		if info, err := os.Stat(filepath.Join("..", started[1])); err != nil || info.Mode()&0o111 == 0 {
			problems = append(problems, "starts "+started[1]+", which is no program of the repository")
		}
	}
	return problems
}

func TestScriptProblemsAreSeen(t *testing.T) {
	for script, want := range map[string]string{
		"make test": "", ".ci/run": "", "echo ${{ github.head_ref }}": "an expression", "make nothing": "does not have", "\n  .ci/nothing": "no program",
	} {
		got := strings.Join(scriptProblems(script, "\ntest: ##"), "\n")
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q: got %q, want %q", script, got, want)
		}
	}
}
