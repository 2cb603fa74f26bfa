package authz

import (
	"context"
	"errors"
	"fmt"

	adminpb "understudy/admin/v1"
	"understudy/rego"
)

// RunTests runs the test_ rules of a policy's modules, on the policy's own data and
// under the capabilities of every policy. A test that fails is no error; the error
// is a *CompileError or that of ctx, which comes with the tests that have ended. It
// never panics.
func RunTests(
	ctx context.Context, p *adminpb.Policy, options rego.TestOptions,
) (report rego.TestReport, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = broken(cause, "The compiler fails on the tests of this policy. Write them another way.")
		}
	}()
	report, err = rego.RunTests(ctx, rego.Source{Modules: p.GetModules(), Data: p.GetData().AsMap()}, options)
	var refused *rego.CompileError
	switch {
	case errors.As(err, &refused):
		return report, &CompileError{Violations: regoViolations(p.GetRules(), refused)}
	case err != nil:
		return report, fmt.Errorf("testing the policy: %w", err)
	}
	return report, nil
}
