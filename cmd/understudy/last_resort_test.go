package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"understudy/cmd/testkit"
	"understudy/cmd/understudy/command"
)

// endless has the process of a test never end the built-in function semver.is_valid, as no
// function of the product does: what one call may cost is bounded.
const endless = "UNDERSTUDY_TEST_ENDLESS"

func init() {
	if os.Getenv(endless) != "" {
		topdown.RegisterBuiltinFunc(ast.SemVerIsValid.Name, func(topdown.BuiltinContext, []*ast.Term, func(*ast.Term) error) error {
			select {}
		})
	}
}

// endlessPolicy asks a service, and then evaluates what never ends.
func endlessPolicy(t *testing.T, service string) string {
	t.Helper()
	const module = "package envoy.authz\n\nallow if semver.is_valid(input.attributes.request.http.method)\n"
	body, err := json.Marshal(map[string]any{
		"rules":   []any{map[string]any{"externalService": map[string]any{"endpointUrl": service}}, map[string]any{"rego": map[string]any{}}},
		"modules": map[string]string{"a.rego": module},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestAnEvaluationThatNeverEnds: a process ends in the time of --shutdown-timeout though a
// check never does. It says what it waited for, and that this was no good end. What was
// logged before is there.
func TestAnEvaluationThatNeverEnds(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 1)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(service.Close)
	p := startProcessWith(t, []string{endless + "=1"}, "--shutdown-timeout", "15s", "--decision-timeout", "1h", "--external-allow", "127.0.0.1",
		"--location", "projects/p1/locations/l1")
	p.change(t, policies+"?policyId=default", endlessPolicy(t, service.URL))
	go func() { _, _ = p.authz.Check(t.Context(), plainCheck(t)) }()
	testkit.Closed(t, "the server to be asked", asked)
	if err := p.process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := p.wait(); !errors.As(err, &exit) || exit.ExitCode() != command.ExitFailure {
		t.Errorf("the process ends with %v, want exit code %d", err, command.ExitFailure)
	}
	const want = `(?m)^understudy: .*checks under way on the authz port.*: not ended in the time of --shutdown-timeout$`
	if got := p.log.String(); !regexp.MustCompile(want).MatchString(got) {
		t.Errorf("the log has no %q:\n%s", want, got)
	}
}
