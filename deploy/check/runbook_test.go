package check_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/template"
)

// section is a paragraph of a runbook: from the heading of an alert to the next heading.
var section = regexp.MustCompile(`(?m)^## (Understudy\w+)\n\n((?:[^#\n].*\n|\n)*)`)

// runbooks :: the reference to a section, as alerts have it → its text.
func runbooks(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("runbook*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("the runbooks are %v, %v", files, err)
	}
	out := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range section.FindAllStringSubmatch(string(text), -1) {
			out["deploy/"+file+"#"+strings.ToLower(m[1])] = m[2]
		}
	}
	return out
}

// TestRunbooks: each alert has a section of a runbook, which says what the alert means, where to look and what to do, and each
// section has an alert.
func TestRunbooks(t *testing.T) {
	sections := runbooks(t)
	for name, rule := range rules(t) {
		if rule.Alert == "" {
			continue
		}
		reference := rule.Annotations["runbook"]
		text, found := sections[reference]
		delete(sections, reference)
		if !found || !strings.HasSuffix(reference, "#"+strings.ToLower(name)) {
			t.Errorf("%s: no runbook has the section %q", name, reference)
			continue
		}
		for _, part := range []string{"**Users**", "**Look", "do**"} {
			if !strings.Contains(text, part) && !strings.Contains(strings.ToLower(text), part) {
				t.Errorf("%s: its section has no %s:\n%s", name, part, text)
			}
		}
	}
	for reference := range sections {
		t.Errorf("no alert has the section %s", reference)
	}
}

// TestTextsOfAlerts: each alert has a severity, a summary, and a description with the number.
func TestTextsOfAlerts(t *testing.T) {
	for name, rule := range rules(t) {
		if rule.Alert == "" {
			continue
		}
		if severity := rule.Labels["severity"]; severity != "critical" && severity != "warning" {
			t.Errorf("%s: the severity is %q", name, severity)
		}
		if rule.Annotations["summary"] == "" || !strings.Contains(rule.Annotations["description"], "$value") {
			t.Errorf("%s: the summary is %q, the description %q", name, rule.Annotations["summary"], rule.Annotations["description"])
		}
	}
}

var (
	// labelOf is a label in the text of an annotation.
	labelOf = regexp.MustCompile(`\$labels\.(\w+)`)
	digit   = regexp.MustCompile(`[0-9]`)
)

// checkTexts expands the texts of an alert as Prometheus does. Each label that they name is there.
func checkTexts(t *testing.T, rule rulefmt.Rule, of promql.Sample) {
	t.Helper()
	const prefix = "{{$labels := .Labels}}{{$value := .Value}}"
	data := template.AlertTemplateData(of.Metric.Map(), nil, "", of)
	for name, text := range rule.Annotations {
		for _, m := range labelOf.FindAllStringSubmatch(text, -1) {
			if of.Metric.Get(m[1]) == "" {
				t.Errorf("%s: %s names the label %s, and the result has %v", rule.Alert, name, m[1], of.Metric)
			}
		}
		expanded, err := template.NewTemplateExpander(t.Context(), prefix+text, rule.Alert, data, model.Now(), nil, nil, nil).Expand()
		if err != nil || strings.Contains(expanded, "<") || name == "description" && !digit.MatchString(expanded) {
			t.Errorf("%s: %s becomes %q, %v", rule.Alert, name, expanded, err)
		}
		t.Logf("%s: %s", name, expanded)
	}
}
