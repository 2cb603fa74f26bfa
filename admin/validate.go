package admin

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
)

// validatePolicy checks what a caller may set in a policy and compiles it, so that
// what cannot run is never stored. field is the path of the policy in the request; before
// is the policy as it is stored, nil if there is none.
func (s *Server) validatePolicy(ctx context.Context, field string, p, before *adminpb.Policy) error {
	if err := s.checkSize(field, proto.Size(policyContent(p))); err != nil {
		return err
	}
	violations := slices.Concat(
		checkDisplayName(field, p.GetDisplayName()),
		checkCount(field+".rules", len(p.GetRules()), maxRules),
		checkCount(field+".exempted_projects", len(p.GetExemptedProjects()), maxExempted),
		checkExempted(field, p.GetExemptedProjects()),
	)
	if len(violations) > 0 {
		return invalid(reasonInvalidField, violations...)
	}
	if err := checkAnnotations(field, p.GetAnnotations()); err != nil {
		return err
	}
	if err := checkDepth(field, p, before); err != nil {
		return err
	}
	if err := checkJSON(field, p); err != nil {
		return err
	}
	return s.compile(ctx, field, p)
}

// checkSize bounds a policy, or an experiment as a whole: it is what one message has to
// carry.
func (s *Server) checkSize(field string, size int) error {
	if size <= s.maxPolicySize {
		return nil
	}
	return invalid(reasonPolicyTooLarge, violation{field, fmt.Sprintf(
		"It has %d bytes; the limit is %d. Move large data out of it, or split it; --max-policy-size raises the limit.", size, s.maxPolicySize)})
}

// checkJSON refuses what gRPC can carry and REST cannot: a number that is not finite, a
// value of no kind. Stored, it would break every list that it is in.
func checkJSON(field string, p *adminpb.Policy) error {
	_, err := protojson.Marshal(policyContent(p))
	if err == nil {
		return nil
	}
	return invalid(reasonInvalidField, violation{field, "The policy has a value that is not JSON: " + protoText(err) +
		". Leave it out, or write it as text."})
}

// compile is the last check of a policy, by the very code that will decide by it,
// and by its own tests if the server is told to run them.
func (s *Server) compile(ctx context.Context, field string, p *adminpb.Policy) error {
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
	around := &adminpb.PolicyExperiment{DisplayName: e.GetDisplayName(), Annotations: e.GetAnnotations()}
	if err := s.checkSize(field, proto.Size(around)+proto.Size(policyContent(e.GetPolicy()))); err != nil {
		return err
	}
	if v := checkDisplayName(field, e.GetDisplayName()); len(v) > 0 {
		return invalid(reasonInvalidField, v...)
	}
	if err := checkAnnotations(field, e.GetAnnotations()); err != nil {
		return err
	}
	return s.validatePolicy(ctx, field+".policy", e.GetPolicy(), before.GetPolicy())
}

// checkDisplayName counts characters, not bytes (AIP-210).
func checkDisplayName(field, name string) []violation {
	if n := utf8.RuneCountInString(name); n > maxDisplayName {
		return []violation{{field + ".display_name", fmt.Sprintf(
			"The name has %d characters; the limit is %d.", n, maxDisplayName)}}
	}
	return nil
}

func checkCount(field string, n, limit int) []violation {
	if n > limit {
		return []violation{{field, fmt.Sprintf("There are %d; the limit is %d.", n, limit)}}
	}
	return nil
}

// checkExempted checks the form of exempted projects: an ID, or name@domain.
func checkExempted(field string, projects []string) []violation {
	var out []violation
	for i, p := range projects {
		if !exempted.MatchString(p) || utf8.RuneCountInString(p) > maxExemptedLength {
			out = append(out, violation{fmt.Sprintf("%s.exempted_projects[%d]", field, i), fmt.Sprintf(
				"A project is an ID, or name@domain, of at most %d characters.", maxExemptedLength)})
		}
	}
	return out
}

const (
	// exemptedPattern is an ID, or name@domain.
	exemptedPattern = `^([^@]+|[\s\S]+@[^@]+)$`
	// annotationNamePattern is the part of an annotation's key after the prefix, as
	// Kubernetes has it (AIP-148).
	annotationNamePattern = `[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?`
	// annotationPrefixPattern is a DNS subdomain, in either case.
	annotationPrefixPattern = `[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*`
	// annotationKeyPattern is a key, but for the length of its prefix.
	annotationKeyPattern = `^(` + annotationPrefixPattern + `/)?` + annotationNamePattern + `$`
)

var (
	exempted      = regexp.MustCompile(exemptedPattern)
	annotationKey = regexp.MustCompile(annotationKeyPattern)
)

const annotationRule = "A key is [prefix/]name: the name has 1 to 63 letters, digits and characters of -_. " +
	"with a letter or digit at both ends; the prefix is a DNS subdomain of at most 253 characters."

// checkAnnotations holds annotations to the limits of Kubernetes (AIP-128).
func checkAnnotations(field string, annotations map[string]string) error {
	size := 0
	var violations []violation
	for key, value := range annotations {
		size += len(key) + len(value)
		if !validAnnotationKey(key) {
			violations = append(violations, violation{fmt.Sprintf("%s.annotations[%q]", field, key), annotationRule})
		}
	}
	if size > maxAnnotationsSize {
		violations = append(violations, violation{field + ".annotations", fmt.Sprintf(
			"The keys and values have %d bytes; the limit is %d.", size, maxAnnotationsSize)})
	}
	if len(violations) == 0 {
		return nil
	}
	slices.SortFunc(violations, func(a, b violation) int { return strings.Compare(a.field, b.field) })
	return invalid(reasonInvalidAnnotation, violations...)
}

func validAnnotationKey(key string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	return annotationKey.MatchString(key) && len(prefix) <= maxAnnotationPrefix
}

// unimplementedRequirements refuses requirements as long as there is no report to
// hold them against: ignoring them would commit without the evidence asked for.
func unimplementedRequirements(r *adminpb.CommitRequirements) error {
	if r == nil {
		return nil
	}
	return fail(codes.Unimplemented, reasonUnimplemented,
		"A commit with requirements is not implemented by this version. Leave the requirements out.",
		nil)
}
