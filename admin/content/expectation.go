package content

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"understudy/admin/apierror"
	adminpb "understudy/admin/v1"
)

const (
	// maxExpectations and maxExpectedLabels bound what an experiment expects.
	maxExpectations   = 32
	maxExpectedLabels = 8
	// maxExpectedPath, maxExpectedMethod and maxExpectedLabel are in bytes.
	maxExpectedPath, maxExpectedMethod, maxExpectedLabel = 256, 64, 128
)

var (
	// expectedPath is a path of segments without a query, in which `*` begins a segment, and `**` is the last one.
	expectedPath = regexp.MustCompile(`^(/(\*:?[^/?#*\s]*|[^/?#*\s]*))*(/\*\*)?$`)
	// expectedMethod is a method of HTTP, or a reservation call.
	expectedMethod = regexp.MustCompile(`^[A-Za-z][A-Za-z_-]*$`)
)

// expectedKinds are the kinds of differences that an author can mean to make. That an experiment fails to decide is
// none.
var expectedKinds = []adminpb.Report_Kind{adminpb.Report_NEWLY_DENIED, adminpb.Report_NEWLY_ALLOWED, adminpb.Report_RESPONSE_CHANGED}

// checkExpectations checks what a caller may set in what an experiment expects.
func checkExpectations(field apierror.Field, all []*adminpb.Expectation) error {
	wrong := checkCount(field, len(all), maxExpectations)
	if len(wrong) == 0 {
		for i, e := range all {
			wrong = append(wrong, checkExpectation(apierror.Field(fmt.Sprintf("%s[%d]", field, i)), e)...)
		}
	}
	if len(wrong) > 0 {
		return apierror.InvalidFields(apierror.ReasonInvalidField, wrong...)
	}
	return nil
}

func checkExpectation(field apierror.Field, e *adminpb.Expectation) (wrong []apierror.Violation) {
	refuse := func(name apierror.Field, refused bool, rule string) {
		if refused {
			wrong = append(wrong, apierror.Violation{Field: field + name, Description: rule})
		}
	}
	refuse(".kind", !slices.Contains(expectedKinds, e.GetKind()), "It is NEWLY_DENIED, NEWLY_ALLOWED or RESPONSE_CHANGED.")
	refuse(".method", e.GetMethod() != "" && (len(e.GetMethod()) > maxExpectedMethod || !expectedMethod.MatchString(e.GetMethod())),
		"It is a method such as GET, or a reservation call. Leave it out for all of them.")
	path := e.GetPath()
	refuse(".path", !strings.HasPrefix(path, "/") || len(path) > maxExpectedPath || !expectedPath.MatchString(path), fmt.Sprintf(
		"It is a path of at most %d bytes without a query, such as /orders/*/items or /internal/**: * stands for one segment, and a last ** for one or more.", maxExpectedPath))
	refuse(".labels", len(e.GetLabels()) > maxExpectedLabels, fmt.Sprintf("There are %d; the limit is %d.", len(e.GetLabels()), maxExpectedLabels))
	for _, name := range slices.Sorted(maps.Keys(e.GetLabels())) {
		refuse(apierror.Field(fmt.Sprintf(".labels[%q]", name)), name == "" || len(name) > maxExpectedLabel || len(e.GetLabels()[name]) > maxExpectedLabel,
			fmt.Sprintf("A name has 1 to %d bytes, and a value at most as many.", maxExpectedLabel))
	}
	refuse(".max_caller_count", e.GetMaxCallerCount() < 0, "It is at least 1; 0 is any number.")
	switch n := utf8.RuneCountInString(e.GetReason()); {
	case !isReason(e.GetReason()):
		refuse(".reason", true, `It says to others why that is meant, such as "support may read reports (TICKET-123)".`)
	case n > maxReason:
		refuse(".reason", true, fmt.Sprintf("The reason has %d characters; the limit is %d.", n, maxReason))
	}
	return wrong
}
