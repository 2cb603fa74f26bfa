package check_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"understudy/cmd/testkit"
)

// githubWorkflow is what the test reads of a workflow.
type githubWorkflow struct {
	On struct {
		PullRequest struct{ Paths []string } `yaml:"pull_request"`
	}
	Permissions map[string]string
	Concurrency map[string]any
	Name        string
	Jobs        map[string]struct {
		If      string
		RunsOn  string `yaml:"runs-on"`
		Timeout int    `yaml:"timeout-minutes"`
		Env     map[string]string
		Steps   []struct {
			Uses, Name, If, Run string
			With                map[string]any
			Env                 map[string]string
		}
	}
}

// gitlabJob is what the test reads of a job.
type gitlabJob struct {
	Stage, Image, Timeout string
	Rules                 []struct {
		If      string
		Changes []string
	}
	Variables   map[string]string
	Script      []string
	AfterScript []string `yaml:"after_script"`
	Artifacts   map[string]any
}

// readStrictly reads a file in which nothing may be that the type does not have.
func readStrictly(t *testing.T, name string, into any) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	decoder := yaml.NewDecoder(file)
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// TestGitHubWorkflow runs the step of the workflow that replays, as GitHub does.
func TestGitHubWorkflow(t *testing.T) {
	var w githubWorkflow
	readStrictly(t, "pull-request/github.yaml", &w)
	if w.Permissions["pull-requests"] != "write" || w.Permissions["contents"] != "read" || len(w.Permissions) != 2 {
		t.Errorf("the permissions are %v; want to read the contents and to write comments", w.Permissions)
	}
	scripts := make(map[string]string)
	for _, step := range w.Jobs["impact"].Steps {
		if step.Uses == "" {
			scripts[step.Name] = step.Run
		}
		if strings.Contains(step.Run, "${{") {
			t.Errorf("the step %q has an expression in its script: whoever writes the pull request could write the script", step.Name)
		}
	}
	for _, name := range []string{"decisions", "comment"} {
		parses(t, scripts[name])
	}
	failsForEach(t, "BASE", "set -e\n"+scripts["replay"])
}

// TestGitLabJob runs the script of the job but for the download.
func TestGitLabJob(t *testing.T) {
	jobs := make(map[string]gitlabJob)
	readStrictly(t, "pull-request/gitlab.yaml", &jobs)
	job := jobs["impact-of-the-policy"]
	if len(job.Script) != 3 || len(job.Rules) != 1 {
		t.Fatalf("the job is %+v; want three commands and one rule", job)
	}
	parses(t, strings.Join(append(job.Script, job.AfterScript...), "\n"))
	failsForEach(t, "CI_MERGE_REQUEST_DIFF_BASE_SHA", "set -e\n"+strings.Join(job.Script[1:], "\n"))
}

// parses holds a script against the shell.
func parses(t *testing.T, script string) {
	t.Helper()
	if out, err := testkit.CombinedOutput(exec.CommandContext(t.Context(), "sh", "-n", "-c", script)); err != nil || script == "" {
		t.Errorf("%q: %v: %s", script, err, out)
	}
}

// failsForEach holds a script to fail for a change that locks somebody out, and for one that
// lets somebody in.
func failsForEach(t *testing.T, base, script string) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "understudy")
	command(t, "..", nil, "go", "build", "-buildvcs=false", "-o", binary, "./cmd/understudy")
	for method, want := range map[string]string{
		"GET":  "1 of 1 request that the live policy allows would be newly denied",
		"POST": "1 of 1 request that the live policy denies would be newly allowed",
	} {
		replays(t, binary, base, script, method, want)
	}
}

// replays runs a script in a repository of a policy that allows GET and a change of it that
// allows POST instead, on one decision about a method. It has to fail, and leave the report.
func replays(t *testing.T, binary, base, script, method, want string) {
	t.Helper()
	folder := t.TempDir()
	git := func(args ...string) string {
		return command(t, folder, nil, "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
	}
	write(t, folder, "policy/authz.rego", "package envoy.authz\ndefault allow := false\nallow if input.attributes.request.http.method == \"GET\"\n")
	git("init", "--quiet")
	git("add", ".")
	git("commit", "--quiet", "--message", "live")
	sha := strings.TrimSpace(git("rev-parse", "HEAD"))
	write(t, folder, "policy/authz.rego", "package envoy.authz\ndefault allow := false\nallow if input.attributes.request.http.method == \"POST\"\n")
	write(t, folder, "decisions.log", `{"decision_id":"1","path":"envoy/authz/allow","timestamp":"2026-05-04T03:02:01Z",`+
		`"input":{"attributes":{"request":{"http":{"method":"`+method+`","path":"/a","headers":{}}}},"parsed_path":["a"],"parsed_query":{}}}`+"\n")
	run := exec.CommandContext(t.Context(), "sh", "-c", script)
	run.Dir, run.Env = folder, append(os.Environ(), "UNDERSTUDY="+binary, base+"="+sha)
	out, err := testkit.CombinedOutput(run)
	if err == nil {
		t.Errorf("the script does not fail, though %s: %s", want, out)
	}
	report, err := os.ReadFile(filepath.Join(folder, "impact.md"))
	if err != nil || !strings.Contains(string(report), want) {
		t.Errorf("the report is %q (%v); want %q; the script said %s", report, err, want, out)
	}
}

func command(t *testing.T, folder string, env []string, name string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir, c.Env = folder, append(os.Environ(), env...)
	out, err := testkit.CombinedOutput(c)
	if err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
	return string(out)
}

func write(t *testing.T, folder, name, text string) {
	t.Helper()
	name = filepath.Join(folder, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
