package check_test

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"understudy/cmd/testkit"
	"understudy/cmd/understudy/port/certtest"
)

// panel is what the dashboard has of a panel.
type panel struct {
	Type, Title string
	Targets     []struct{ Expr, LegendFormat string }
}

// filled replaces the variables of Grafana in a query, as Grafana does before it asks Prometheus: everything is chosen.
var filled = strings.NewReplacer("$__rate_interval", "5m", "$job", ".*", "$instance", ".*", "$policy", ".*")

// panels returns those of the dashboard, without its rows.
func panels(t *testing.T) (out []panel) {
	t.Helper()
	text, err := os.ReadFile("dashboard/understudy.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct{ Panels []panel }
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		if p.Type != "row" {
			out = append(out, p)
		}
	}
	return out
}

// metricsOf returns the names of the metrics in an expression of PromQL.
func metricsOf(t *testing.T, where, expr string) (names []string) {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(filled.Replace(expr))
	if err != nil {
		t.Errorf("%s: %v in %s", where, err, expr)
		return nil
	}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			names = append(names, selector.Name)
		}
		return nil
	})
	return names
}

// TestMetricsExist: each metric of an alert, of a recorded series and of the dashboard is on the page of a process in which
// everything is switched on.
func TestMetricsExist(t *testing.T) {
	known := map[string]bool{}
	for _, s := range everything(t) {
		known[s.labels.Get(model.MetricNameLabel)] = true
	}
	asked := map[string][]string{}
	for name, rule := range rules(t) {
		asked[name] = metricsOf(t, name, rule.Expr)
	}
	for _, p := range panels(t) {
		if len(p.Targets) == 0 {
			t.Errorf("the panel %q has no query", p.Title)
		}
		for _, target := range p.Targets {
			asked["the panel "+p.Title] = append(asked["the panel "+p.Title], metricsOf(t, p.Title, target.Expr)...)
		}
	}
	if len(asked) < 40 {
		t.Errorf("there are only %d rules and panels", len(asked))
	}
	for where, names := range asked {
		for _, name := range names {
			if !known[name] {
				t.Errorf("%s: no page has the metric %s", where, name)
			}
		}
	}
}

// legendLabel is a label in the name of a series.
var legendLabel = regexp.MustCompile(`{{(\w+)}}`)

// TestDashboardShowsSomething: Prometheus evaluates each query, each panel has a series, and the names of series have the
// labels that they are made of.
func TestDashboardShowsSomething(t *testing.T) {
	history := timeline{nil, everything(t), 20 * time.Minute, time.Now()}
	for _, p := range panels(t) {
		found := 0
		for _, target := range p.Targets {
			vector := history.vector(t, filled.Replace(target.Expr))
			found += len(vector)
			for _, one := range vector {
				for _, m := range legendLabel.FindAllStringSubmatch(target.LegendFormat, -1) {
					if !one.Metric.Has(m[1]) {
						t.Errorf("%s: a series has no label %s: %v", p.Title, m[1], one.Metric)
					}
				}
			}
		}
		if found == 0 {
			t.Errorf("the panel %q is empty", p.Title)
		}
	}
}

// everything is the page of a process with a certificate, tokens, an experiment that is compared, a policy that is never
// verified, checks that fail, and records that a collector does not take.
func everything(t *testing.T) page {
	t.Helper()
	const secret = "01234567890123456789012345678901"
	folder := t.TempDir()
	line := fmt.Sprintf("ci %x %s\n", sha256.Sum256([]byte(secret)), time.Now().Add(24*time.Hour).UTC().Format(time.RFC3339))
	if err := os.WriteFile(filepath.Join(folder, "tokens"), []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	files := certtest.NewAuthority(t, folder, "ca").Issue(t, "authz", 1, time.Hour, x509.ExtKeyUsageServerAuth)
	s := startServer(t, withoutCollector(), "--admin-token-file", filepath.Join(folder, "tokens"), "--admin-owner", "token:ci",
		"--authz-tls-cert", files.Cert, "--authz-tls-key", files.Key)
	s.token = secret
	s.createPolicy("shop", getOnly+`

allow := input.parsed_path if input.parsed_path[0] == "bad"`)
	s.change("POST", policies+"?policyId=dice", content(`allow if rand.intn("x", 2) >= 0`))
	experiments := policies + "/shop/experiments"
	s.change("POST", experiments+"?policyExperimentId=closed", fmt.Sprintf(`{"policy":{"name":"%s/policies/shop",%s}`, location,
		strings.TrimPrefix(content("default allow := false"), "{")))
	s.change("POST", experiments+"/closed:startPreview", "{}")
	testkit.Await(t, "the experiment is compared, and records are lost", func() bool {
		s.checks(5, "shop", "/x")
		s.checks(1, "shop", "/bad")
		page := s.scrape()
		return page.value("understudy_preview_comparisons_total") > 0 && page.value("understudy_export_dropped_total") > 0
	})
	return s.scrape()
}
