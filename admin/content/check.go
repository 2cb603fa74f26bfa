package content

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"

	"understudy/admin/apierror"
	adminpb "understudy/admin/v1"
)

// DefaultPolicySize is the limit on a policy's size, in bytes, unless Config.MaxPolicySize
// is set. A gRPC client receives messages of at most 4 MiB unless it is configured otherwise:
// the rest is room for the names, times and etags that the server adds, and for the
// operation around a policy.
const DefaultPolicySize = 4<<20 - 64<<10

const (
	// maxExempted and maxDisplayName bound a policy's fields.
	maxExempted    = 100
	maxDisplayName = 63
	// maxExemptedLength bounds an exempted project, in characters.
	maxExemptedLength = 255
	// maxAnnotationPrefix bounds the prefix of an annotation's key, in bytes.
	maxAnnotationPrefix = 253
	// maxAnnotationsSize bounds all keys and values of a resource, in bytes.
	maxAnnotationsSize = 256 << 10
)

// CheckPolicy checks what a caller may set in a policy, but for its size and whether it
// compiles. field is the path of the policy in the request; before is the policy as it is
// stored, nil if there is none.
func CheckPolicy(field apierror.Field, p, before *adminpb.Policy) error {
	violations := slices.Concat(
		checkDisplayName(field, p.GetDisplayName()),
		checkCount(field+".rules", len(p.GetRules()), adminpb.MaxRules),
		checkCount(field+".exempted_projects", len(p.GetExemptedProjects()), maxExempted),
		checkExempted(field, p.GetExemptedProjects()),
	)
	if len(violations) > 0 {
		return apierror.InvalidFields(apierror.ReasonInvalidField, violations...)
	}
	if err := checkAnnotations(field, p.GetAnnotations()); err != nil {
		return err
	}
	if err := CheckDepth(field, p, before); err != nil {
		return err
	}
	return checkJSON(field, p)
}

// RequirePolicy checks that an experiment has a policy to preview.
func RequirePolicy(e *adminpb.PolicyExperiment) error {
	if e == nil {
		return apierror.Required("policy_experiment", "It holds the policy to preview.")
	}
	if e.GetPolicy() == nil {
		return apierror.Required("policy_experiment.policy", "Copy the live policy, its name included, and change the copy.")
	}
	return nil
}

// CheckExperiment checks what a caller may set in an experiment, but for its policy.
// field is the path of the experiment in the request.
func CheckExperiment(field apierror.Field, e *adminpb.PolicyExperiment) error {
	if v := checkDisplayName(field, e.GetDisplayName()); len(v) > 0 {
		return apierror.InvalidFields(apierror.ReasonInvalidField, v...)
	}
	if err := checkExpectations(field+".expects", e.GetExpects()); err != nil {
		return err
	}
	return checkAnnotations(field, e.GetAnnotations())
}

// CheckDataset checks what a caller may set in a dataset next to its content. field is the path of
// the dataset in the request.
func CheckDataset(field apierror.Field, d *adminpb.Dataset) error {
	if v := checkDisplayName(field, d.GetDisplayName()); len(v) > 0 {
		return apierror.InvalidFields(apierror.ReasonInvalidField, v...)
	}
	return checkAnnotations(field, d.GetAnnotations())
}

// checkJSON refuses what gRPC can carry and REST cannot: a number that is not finite, a
// value of no kind. Stored, it would break every list that it is in.
func checkJSON(field apierror.Field, p *adminpb.Policy) error {
	_, err := protojson.Marshal(OfPolicy(p))
	if err == nil {
		return nil
	}
	return apierror.Invalid(apierror.ReasonInvalidField, field, "The policy has a value that is not JSON: "+apierror.ProtoText(err)+
		". Leave it out, or write it as text.")
}

// checkDisplayName counts characters, not bytes (AIP-210).
func checkDisplayName(field apierror.Field, name string) []apierror.Violation {
	if n := utf8.RuneCountInString(name); n > maxDisplayName {
		return []apierror.Violation{{Field: field + ".display_name", Description: fmt.Sprintf(
			"The name has %d characters; the limit is %d.", n, maxDisplayName)}}
	}
	return nil
}

func checkCount(field apierror.Field, n, limit int) []apierror.Violation {
	if n > limit {
		return []apierror.Violation{{Field: field, Description: fmt.Sprintf("There are %d; the limit is %d.", n, limit)}}
	}
	return nil
}

// checkExempted checks the form of exempted projects: an ID, or name@domain.
func checkExempted(field apierror.Field, projects []string) []apierror.Violation {
	var out []apierror.Violation
	for i, p := range projects {
		if !exempted.MatchString(p) || utf8.RuneCountInString(p) > maxExemptedLength {
			out = append(out, apierror.Violation{Field: apierror.Field(fmt.Sprintf("%s.exempted_projects[%d]", field, i)), Description: fmt.Sprintf(
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
func checkAnnotations(field apierror.Field, annotations map[string]string) error {
	size := 0
	var violations []apierror.Violation
	for key, value := range annotations {
		size += len(key) + len(value)
		if !validAnnotationKey(key) {
			violations = append(violations, apierror.Violation{Field: apierror.Field(fmt.Sprintf("%s.annotations[%q]", field, key)), Description: annotationRule})
		}
	}
	if size > maxAnnotationsSize {
		violations = append(violations, apierror.Violation{Field: field + ".annotations", Description: fmt.Sprintf(
			"The keys and values have %d bytes; the limit is %d.", size, maxAnnotationsSize)})
	}
	if len(violations) == 0 {
		return nil
	}
	slices.SortFunc(violations, func(a, b apierror.Violation) int { return cmp.Compare(a.Field, b.Field) })
	return apierror.InvalidFields(apierror.ReasonInvalidAnnotation, violations...)
}

func validAnnotationKey(key string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	return annotationKey.MatchString(key) && len(prefix) <= maxAnnotationPrefix
}
