package cli

import (
	"context"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
)

// expectation is an entry of the file of an experiment.
type expectation struct {
	Kind   string `yaml:"kind"`
	Method string `yaml:"method,omitempty"`
	Path   string `yaml:"path"`
	Reason string `yaml:"reason"`
}

// showExpectations prints what an experiment could expect of what its report shows.
func (c *Client) showExpectations(ctx context.Context, experiment string) error {
	r, err := c.report(ctx, experiment, nil)
	if err != nil {
		return err
	}
	return c.printExpectations(r)
}

// printExpectations prints the differences of a report that nobody has accepted or expects as entries for the
// file of the experiment, whose reasons are to be written.
//
// An entry without a reason is refused, so that nothing is expected by accident.
func (c *Client) printExpectations(r *adminpb.Report) error {
	var entries []expectation
	for _, d := range r.Differences {
		entry := expectation{Kind: d.Kind.String(), Method: strings.TrimPrefix(d.Method, "*"), Path: d.Path}
		if canBeExpected(r, d) && !slices.Contains(entries, entry) {
			entries = append(entries, entry)
		}
	}
	out, err := yaml.Marshal(map[string][]expectation{"expects": entries})
	if err == nil {
		_, err = c.Out.Write(out)
	}
	return err
}

// canBeExpected reports whether a difference is one that an author can mean, and that still counts.
func canBeExpected(r *adminpb.Report, d *adminpb.Report_Difference) bool {
	switch d.Kind {
	case adminpb.Report_NEWLY_DENIED, adminpb.Report_NEWLY_ALLOWED, adminpb.Report_RESPONSE_CHANGED:
		return strings.HasPrefix(d.Path, "/") && !report.IsLeftOut(r, d)
	default:
		return false
	}
}
