package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"understudy/admin/apierror"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/rego/regotest"
)

const (
	// testTime bounds all tests of a policy, and testTimeout each.
	testTime    = 5 * time.Second
	testTimeout = time.Second
	// maxFailures bounds the failing tests that an error names.
	maxFailures = 10
)

// selfTest refuses a policy whose own tests do not pass, if the server is configured so.
// A policy without tests passes. Tests of one policy at a time are run, one after
// the other: the processors belong to those who decide.
func (s *Server) selfTest(ctx context.Context, field apierror.Field, p *adminpb.Policy) error {
	if s.testing == nil {
		return nil
	}
	select {
	case s.testing <- struct{}{}:
		defer func() { <-s.testing }()
	case <-ctx.Done():
		return s.storeFailed(ctx, "testing "+p.GetName(), ctx.Err())
	}
	report, err := s.compilers.compiler.Test(ctx, p, testTime, regotest.Options{Timeout: testTimeout})
	violations := failures(field, report)
	switch {
	case ctx.Err() != nil:
		return s.storeFailed(ctx, "testing "+p.GetName(), ctx.Err())
	case len(violations) > 0:
		return apierror.InvalidFields(apierror.ReasonTestsFailed, violations...)
	case errors.Is(err, context.DeadlineExceeded):
		return apierror.Invalid(apierror.ReasonTestsFailed, field+".modules", fmt.Sprintf(
			"The tests take longer than %s. Make them shorter, or run the long ones elsewhere.", testTime))
	case err != nil:
		return s.refused(ctx, field, p, err)
	}
	return nil
}

// failures are the tests that failed, as violations.
func failures(field apierror.Field, report regotest.Report) []apierror.Violation {
	var out []apierror.Violation
	for _, t := range report.Tests {
		if t.Bad() && len(out) < maxFailures {
			out = append(out, apierror.Violation{Field: apierror.Field(fmt.Sprintf("%s.modules[%q]", field, t.File)), Description: fmt.Sprintf(
				"%s:%d: The test %s does not pass: %s", t.File, t.Row, t.Name, t.Reason)})
		}
	}
	return out
}

// refused is the error of a policy that does not compile.
func (s *Server) refused(ctx context.Context, field apierror.Field, p *adminpb.Policy, err error) error {
	s.panics.ReportCompiler(ctx, err, slog.String("resource", p.GetName()))
	var refused *authz.CompileError
	if !errors.As(err, &refused) || len(refused.Violations) == 0 {
		return s.storeFailed(ctx, "compiling "+p.GetName(), err)
	}
	var violations []apierror.Violation
	for _, v := range refused.Violations {
		violations = append(violations, apierror.Violation{Field: field + "." + apierror.Field(v.Field), Description: v.Description})
	}
	return apierror.InvalidFields(apierror.ReasonInvalidPolicy, violations...)
}
