package reportview

import (
	"encoding/xml"
	"io"
	"strings"

	"understudy/admin/report"
	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
	"understudy/cmd/understudy/terminal"
)

// The elements of JUnit's XML that GitLab, Jenkins and GitHub's reporters read.
type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name       string          `xml:"name,attr"`
		Tests      int             `xml:"tests,attr"`
		Failures   int             `xml:"failures,attr"`
		Skipped    int             `xml:"skipped,attr"`
		Timestamp  string          `xml:"timestamp,attr,omitempty"`
		Properties []junitProperty `xml:"properties>property,omitempty"`
		Cases      []junitCase     `xml:"testcase"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Failure *junitMessage `xml:"failure,omitempty"`
		Skipped *junitMessage `xml:"skipped,omitempty"`
		Output  string        `xml:"system-out,omitempty"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// JUnit writes a report as the result of tests: one test for each requirement, which
// fails if it is not met, one that fails for each that is missing ([report.Missing]), and one
// for each kind of difference that the experiment makes, which has its numbers and groups, and is
// skipped if nothing was compared. What fails is what ends `report` with exit code 1. The items that no
// request has shown are the text of the failure about them.
func JUnit(w io.Writer, r *adminpb.Report, o Options) error {
	s := junitSuite{Name: o.nameOf(r), Properties: propertiesOf(r, o)}
	if r.UpdateTime != nil {
		s.Timestamp = r.UpdateTime.AsTime().UTC().Format("2006-01-02T15:04:05")
	}
	s.addRequirements(r)
	s.addDifferences(r)
	s.Tests = len(s.Cases)
	out, err := xml.MarshalIndent(junitSuites{Suites: []junitSuite{s}}, "", "  ")
	if err == nil {
		_, err = io.WriteString(w, xml.Header+string(out)+"\n")
	}
	return err
}

// propertiesOf says what was compared, and how the report comes out as a whole.
//
// Properties are shown by few readers; nothing that decides is in them alone.
func propertiesOf(r *adminpb.Report, o Options) []junitProperty {
	out := []junitProperty{{"verdict", verdict.Of(r).String()}, {"requests", verdict.Summary(r)}}
	if r.ExperimentEtag != "" {
		out = append(out, junitProperty{"experiment_etag", r.ExperimentEtag}, junitProperty{"policy_etag", r.PolicyEtag})
	}
	for _, side := range o.Sides {
		out = append(out, junitProperty{side.Name, terminal.Line(side.From)})
	}
	for _, text := range o.Notes {
		out = append(out, junitProperty{o.NotesOf, terminal.Line(text)})
	}
	for _, p := range []junitProperty{{"shares", verdict.Split(r)}, {"noise", verdict.Noise(r)}} {
		if p.Value != "" {
			out = append(out, p)
		}
	}
	for _, text := range verdict.TakenBack(r) {
		out = append(out, junitProperty{"undoes", terminal.Line(text)})
	}
	for _, text := range verdict.Expectations(r) {
		out = append(out, junitProperty{"expects", terminal.Line(text)})
	}
	if text := verdict.Unseen(r); text != "" && r.RequestCount > 0 {
		out = append(out, junitProperty{"unseen", text})
	}
	return out
}

// addRequirements adds the tests of the requirements, and of those that are missing.
//
// A pipeline without requirements would be green about anything, so what nobody has judged fails too.
func (s *junitSuite) addRequirements(r *adminpb.Report) {
	for _, q := range r.Requirements {
		c := junitCase{Class: s.Name + ".requirements", Name: terminal.Line(q.Requirement)}
		if !q.Met {
			c.Failure = failureOf(r, q.Requirement, "has "+haveNeed(r, q))
			s.Failures++
		}
		s.Cases = append(s.Cases, c)
	}
	missing := report.Missing(r)
	for _, name := range missing {
		s.addMissing(r, name, missingText(r, name))
	}
	if len(missing) == 0 && r.RequirementsMet && !report.Ready(r) {
		s.addMissing(r, "unjudged", verdict.Unseen(r)) // as many as are allowed
	}
}

// addMissing adds the test of a requirement that is not there, or allows what no report is ready with.
func (s *junitSuite) addMissing(r *adminpb.Report, name, message string) {
	s.Failures++
	s.Cases = append(s.Cases, junitCase{Class: s.Name + ".requirements", Name: name, Failure: failureOf(r, name, message)})
}

// addDifferences adds the tests of the kinds of differences.
//
// They do not fail: whether a difference is wanted is for a requirement to say. A report without requests
// skips them, since a test that passes would say that nothing differs.
func (s *junitSuite) addDifferences(r *adminpb.Report) {
	for _, k := range verdict.Changes {
		c := junitCase{Class: s.Name + ".differences", Name: k.Name, Output: outputOf(r, k)}
		if r.RequestCount == 0 {
			c.Skipped, c.Output = &junitMessage{Message: "no request has been compared"}, ""
			s.Skipped++
		}
		s.Cases = append(s.Cases, c)
	}
}

// failureOf is that of a requirement, or of one that is missing.
func failureOf(r *adminpb.Report, term, message string) *junitMessage {
	if report.IsAboutItems(term) {
		return &junitMessage{Message: message, Text: unseenLines(r)}
	}
	return &junitMessage{Message: message}
}

// missingText says what a requirement that is missing would be about.
func missingText(r *adminpb.Report, name string) string {
	if report.IsAboutItems(name) {
		return "no requirement is about it, and " + verdict.Unseen(r)
	}
	return "no requirement is about it, and there are such requests"
}

// outputOf is what the test of a kind says: its number, and its groups.
func outputOf(r *adminpb.Report, k verdict.Kind) string {
	lines := []string{report.Number(k.Count(r)) + ", " + verdict.ShareInWords(r, k)}
	for _, d := range verdict.Groups(r) {
		if d.Kind != k.Value {
			continue
		}
		lines = append(lines, partOf(d)+" "+endpointOf(d)+", "+report.CountedCallers(d.CallerCount)+", "+answersOf(d))
		for _, e := range d.Causes {
			lines = append(lines, "  "+causeOf(e))
		}
		if text := verdict.UnknownCause(r, d); text != "" {
			lines = append(lines, "  "+text)
		}
		if reason := reasonOf(d); reason != "" {
			lines = append(lines, "  "+reason)
		}
		if group := groupOf(r, d); group != "" {
			lines = append(lines, "  "+group)
		}
	}
	return strings.Join(lines, "\n")
}
