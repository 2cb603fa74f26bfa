package admin_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"understudy/admin"
	"understudy/admin/boltstore"
	adminpb "understudy/admin/v1"
)

const (
	testedParent = "projects/p/locations/l"
	testedPolicy = testedParent + "/policies/web"
)

// policyWith is a policy with one test.
func policyWith(test string) *adminpb.Policy {
	return &adminpb.Policy{
		Rules: []*adminpb.PolicyRule{{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
		Modules: map[string]string{
			"a.rego":      "package envoy.authz\n\nallow := input.user == \"ann\"\n",
			"a_test.rego": "package envoy.authz\n\n" + test,
		},
	}
}

// servers are two on one store: one that does not ask for tests, and one that does.
func servers(t *testing.T) (lax, strict *admin.Server) {
	t.Helper()
	store, err := boltstore.Open(filepath.Join(t.TempDir(), "understudy.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if lax, err = admin.NewServer(admin.Config{Store: store}); err != nil {
		t.Fatal(err)
	}
	if strict, err = admin.NewServer(admin.Config{Store: store, RequirePassingTests: true}); err != nil {
		t.Fatal(err)
	}
	return lax, strict
}

// refusedBy expects the error of a failing test, in a field or what is in it.
func refusedBy(t *testing.T, err error, field, description string) {
	t.Helper()
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("%v, want INVALID_ARGUMENT", err)
		return
	}
	for _, detail := range status.Convert(err).Details() {
		bad, ok := detail.(*errdetails.BadRequest)
		if !ok {
			continue
		}
		v := bad.FieldViolations[0]
		if v.Reason != "TESTS_FAILED" || !strings.HasPrefix(v.Field, field) || !strings.Contains(v.Description, description) {
			t.Errorf("the violation is %v; want TESTS_FAILED of %s with %q", v, field, description)
		}
		return
	}
	t.Errorf("%v has no BadRequest", err)
}

const (
	passing = "test_ann if allow with input.user as \"ann\"\n"
	failing = "test_eve if allow with input.user as \"eve\"\n"
)

func TestRequirePassingTests(t *testing.T) {
	ctx := context.Background()
	_, strict := servers(t)
	create := func(p *adminpb.Policy) error {
		_, err := strict.CreatePolicy(ctx, &adminpb.CreatePolicyRequest{
			Parent: testedParent, PolicyId: "web", Policy: p, ValidateOnly: true,
		})
		return err
	}
	for name, p := range map[string]*adminpb.Policy{
		"passing":  policyWith(passing),
		"no tests": policyWith("helper := 1\n"),
		"skipped":  policyWith("todo_" + failing),
	} {
		if err := create(p); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	const field = `policy.modules["a_test.rego"]`
	refusedBy(t, create(policyWith(failing)), field,
		"a_test.rego:3: The test data.envoy.authz.test_eve does not pass: a_test.rego:3: allow with input.user as \"eve\"")
	refusedBy(t, create(policyWith("test_two := x if some x in [1, 2]\n")), field, "eval_conflict_error")
	refusedBy(t, create(policyWith("test_long if {\n\tsome i in numbers.range(1, 100000)\n\tsome j in numbers.range(1, 100000)\n\ti + j < 0\n}\n")),
		"policy.modules", "longer than") // on a busy machine than all tests may take
	if err := create(policyWith("test_call if http.send({})\n")); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "http.send") {
		t.Errorf("a test that calls out: %v", err)
	}
}

// TestCommitRequiresPassingTests commits what was stored before tests were asked
// for.
func TestCommitRequiresPassingTests(t *testing.T) {
	ctx := context.Background()
	lax, strict := servers(t)
	if _, err := lax.CreatePolicy(ctx, &adminpb.CreatePolicyRequest{
		Parent: testedParent, PolicyId: "web", Policy: policyWith(passing),
	}); err != nil {
		t.Fatal(err)
	}
	candidate := policyWith(failing)
	candidate.Name = testedPolicy
	create := &adminpb.CreatePolicyExperimentRequest{
		Parent: testedPolicy, PolicyExperimentId: "next", PolicyExperiment: &adminpb.PolicyExperiment{Policy: candidate},
	}
	_, err := strict.CreatePolicyExperiment(ctx, create)
	refusedBy(t, err, `policy_experiment.policy.modules["a_test.rego"]`, "test_eve")
	if _, err := lax.CreatePolicyExperiment(ctx, create); err != nil {
		t.Fatal(err)
	}
	const name = testedPolicy + "/experiments/next"
	// A preview decides nothing, so it may start.
	if _, err := strict.StartPreviewPolicyExperiment(ctx, &adminpb.StartPreviewPolicyExperimentRequest{Name: name}); err != nil {
		t.Fatal(err)
	}
	stored, err := strict.GetPolicyExperiment(ctx, &adminpb.GetPolicyExperimentRequest{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	commit := &adminpb.CommitPolicyExperimentRequest{Name: name, Etag: stored.Etag}
	_, err = strict.CommitPolicyExperiment(ctx, commit)
	refusedBy(t, err, `policy_experiment.policy.modules["a_test.rego"]`, "test_eve")
	if _, err := lax.CommitPolicyExperiment(ctx, commit); err != nil {
		t.Errorf("without the requirement: %v", err)
	}
}
