package admin

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"understudy/admin/apierror"
	"understudy/admin/content"
	adminpb "understudy/admin/v1"
)

// ValidatePolicy checks what a caller may set in a policy and compiles it, so that
// what cannot run is never stored. field is the path of the policy in the request; before
// is the policy as it is stored, nil if there is none.
func (s *Server) ValidatePolicy(ctx context.Context, field apierror.Field, p, before *adminpb.Policy) error {
	if err := s.checkSize(field, proto.Size(content.OfPolicy(p))); err != nil {
		return err
	}
	if err := content.CheckPolicy(field, p, before); err != nil {
		return err
	}
	return s.compile(ctx, field, p)
}

// checkSize bounds a policy, or an experiment as a whole: it is what one message has to
// carry.
func (s *Server) checkSize(field apierror.Field, size int) error {
	if size <= s.maxPolicySize {
		return nil
	}
	return apierror.Invalid(apierror.ReasonPolicyTooLarge, field, fmt.Sprintf(
		"It has %d bytes; the limit is %d. Move large data out of it, or split it; --max-policy-size raises the limit.", size, s.maxPolicySize))
}

// compile is the last check of a policy, by the very code that will decide by it,
// and by its own tests if the server is configured to run them.
func (s *Server) compile(ctx context.Context, field apierror.Field, p *adminpb.Policy) error {
	if err := s.compilers.compile(ctx, p); err != nil {
		return s.refused(ctx, field, p, err)
	}
	return s.selfTest(ctx, field, p)
}

// validateExperiment checks what a caller may set in an experiment of the policy. before
// is the experiment as it is stored, nil if there is none.
func (s *Server) validateExperiment(ctx context.Context, e, before *adminpb.PolicyExperiment) error {
	const field = "policy_experiment"
	// A policy that fits as a live one fits in an experiment too: its name does not count.
	around := &adminpb.PolicyExperiment{DisplayName: e.GetDisplayName(), Annotations: e.GetAnnotations(), Expects: e.GetExpects()}
	if err := s.checkSize(field, proto.Size(around)+proto.Size(content.OfPolicy(e.GetPolicy()))); err != nil {
		return err
	}
	if err := content.CheckExperiment(field, e); err != nil {
		return err
	}
	return s.ValidatePolicy(ctx, field+".policy", e.GetPolicy(), before.GetPolicy())
}
