package check_test

import (
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"understudy/authz/diagnostics"
	"understudy/authz/rehearsal/verify"
)

// series :: name and labels, as Prometheus writes them → by how much the counter has risen in
// the last twenty minutes of two hours.
type series map[string]float64

// Querier implements storage.Queryable.
func (s series) Querier(int64, int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		found := &seriesSet{}
		for name, by := range s {
			set, err := parser.NewParser(parser.Options{}).ParseMetric(name)
			if err != nil {
				panic(err)
			}
			if slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(set.Get(m.Name)) }) {
				continue
			}
			found.all = append(found.all, storage.NewListSeries(set, samples(by)))
		}
		return found
	}}, nil
}

// samples are those of each minute.
func samples(by float64) (out []chunks.Sample) {
	for minute := range 121 {
		risen := by * float64(max(0, minute-100)) / 20
		out = append(out, sample{(time.Duration(minute) * time.Minute).Milliseconds(), risen})
	}
	return out
}

// sample is a value at a moment, in milliseconds.
type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                    { return s.at }
func (sample) ST() int64                     { return 0 }
func (s sample) F() float64                  { return s.value }
func (sample) H() *histogram.Histogram       { return nil }
func (sample) FH() *histogram.FloatHistogram { return nil }
func (sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample         { return s }

// seriesSet implements storage.SeriesSet.
type seriesSet struct {
	all []storage.Series
	at  int
}

func (s *seriesSet) Next() bool                      { s.at++; return s.at <= len(s.all) }
func (s *seriesSet) At() storage.Series              { return s.all[s.at-1] }
func (*seriesSet) Err() error                        { return nil }
func (*seriesSet) Warnings() annotations.Annotations { return nil }

// exported are the series of a verifier that has verified nothing, as Prometheus scrapes them:
// name{labels} of each.
func exported(t *testing.T) (out []string) {
	t.Helper()
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo())
	if err != nil {
		t.Fatal(err)
	}
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	if _, err := verify.New(verify.Config{Output: diagnostics.Output{Meters: meters}}); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := []string{`job="understudy"`, `instance="a"`}
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			out = append(out, family.GetName()+"{"+strings.Join(labels, ",")+"}")
		}
	}
	return out
}

// rules :: name of the alert, or of the series that is recorded → the rule.
func rules(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile("alerts.yaml", false, model.LegacyValidation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	out := map[string]rulefmt.Rule{}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			out[rule.Alert+rule.Record] = rule
		}
	}
	return out
}

// firing returns the alerts whose expression has a result after two hours in which some
// counters have risen.
func firing(t *testing.T, rising series) (out []string) {
	t.Helper()
	all := maps.Clone(rising)
	for _, name := range exported(t) {
		all[name] += 0
	}
	for name, rule := range rules(t) {
		if rule.Alert != "" && len(all.vector(t, rule)) > 0 {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// vector returns what a rule comes to after the two hours.
func (s series) vector(t *testing.T, rule rulefmt.Rule) promql.Vector {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1 << 20, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	query, err := engine.NewInstantQuery(t.Context(), s, nil, rule.Expr, time.Unix(0, 0).Add(2*time.Hour))
	if err != nil {
		t.Fatalf("%s%s: %v", rule.Alert, rule.Record, err)
	}
	vector, err := query.Exec(t.Context()).Vector()
	if err != nil {
		t.Fatalf("%s%s: %v", rule.Alert, rule.Record, err)
	}
	return vector
}

// compared is the series of the comparisons of an experiment.
func compared(difference, policyResult string) string {
	return fmt.Sprintf(`understudy_preview_comparisons_total{job="understudy",instance="a",policy="web",experiment="web/next",difference=%q,failure="",policy_result=%q}`,
		difference, policyResult)
}

// TestSharesOfAnExperiment: they are of what the live policy allows, and of what it denies, however
// many requests neither policy allows.
func TestSharesOfAnExperiment(t *testing.T) {
	denied, allowed := rules(t)["experiment:understudy_preview_newly_denied:ratio_1h"], rules(t)["experiment:understudy_preview_newly_allowed:ratio_1h"]
	all := series{
		compared("UNCHANGED", "ALLOW"): 25, compared("NEWLY_DENIED", "ALLOW"): 10, compared("RESPONSE_CHANGED", "ALLOW"): 5,
		compared("UNCHANGED", "DENY"): 60, compared("NEWLY_ALLOWED", "DENY"): 10, compared("NEWLY_ALLOWED", "ERROR"): 10,
		compared("LIVE_FAILED", "ERROR"): 1000,
	}
	for name, c := range map[string]struct {
		rule rulefmt.Rule
		want float64
	}{"newly denied": {denied, 0.25}, "newly allowed": {allowed, 0.25}} {
		got := all.vector(t, c.rule)
		if len(got) != 1 || math.Abs(got[0].F-c.want) > 1e-9 || got[0].Metric.Get("experiment") != "web/next" {
			t.Errorf("%s: got %v, want %v of web/next", name, got, c.want)
		}
	}
	all[compared("UNCHANGED", "DENY")] = 100_000
	if got := all.vector(t, denied); len(got) != 1 || math.Abs(got[0].F-0.25) > 1e-9 {
		t.Errorf("newly denied: got %v with many requests that both deny, want 0.25", got)
	}
	if got := (series{compared("UNCHANGED", "DENY"): 5}).vector(t, denied); len(got) > 0 {
		t.Errorf("newly denied: got %v where the live policy allows nothing, want nothing", got)
	}
}

const (
	verifiedSeries = `understudy_verifications_total{job="understudy",instance="a",outcome="done"}`
	checksSeries   = `understudy_checks_total{job="understudy",instance="a",policy="web",result="ALLOW"}`
	excludedSeries = `understudy_verification_excluded{job="understudy",instance="a",policy="web",reason="external_service"}`
	mismatches     = `understudy_verification_mismatches_total{job="understudy",instance="a"}`
	panicsSeries   = `understudy_panics_total{job="understudy",instance="a",where="check"}`
)

// TestAlertsOfTheStore: a gauge above zero fires, and zero does not.
func TestAlertsOfTheStore(t *testing.T) {
	for gauge, alert := range map[string]string{
		"understudy_store_missing_policies": "UnderstudyStoreHasLostPolicies", "understudy_store_stale_policies": "UnderstudyStoreWentBack",
		"understudy_store_went_back": "UnderstudyStoreWentBack",
	} {
		one := gauge + `{job="understudy",instance="a"}`
		if got := firing(t, series{one: 0}); len(got) > 0 {
			t.Errorf("%s of 0: %v", gauge, got)
		}
		if got := firing(t, series{one: 1}); !slices.Equal(got, []string{alert}) {
			t.Errorf("%s of 1: %v", gauge, got)
		}
	}
}

// TestAlerts: each reason for which decisions are not verified fires, and what is ordinary does
// not.
func TestAlerts(t *testing.T) {
	ordinary := series{verifiedSeries: 100, checksSeries: 100_000}
	with := func(more series) series {
		out := maps.Clone(ordinary)
		maps.Copy(out, more)
		return out
	}
	if got := firing(t, ordinary); len(got) > 0 {
		t.Errorf("of ordinary traffic: %v", got)
	}
	if got := firing(t, with(series{mismatches: 1})); !slices.Equal(got, []string{"UnderstudyDecisionIsWrong"}) {
		t.Errorf("of a mismatch: %v", got)
	}
	if got := firing(t, with(series{panicsSeries: 1})); !slices.Equal(got, []string{"UnderstudyPanics"}) {
		t.Errorf("of a panic: %v", got)
	}
	if got := firing(t, series{checksSeries: 100_000}); !slices.Equal(got, []string{"UnderstudyNothingIsVerified"}) {
		t.Errorf("where nothing is verified: %v", got)
	}
	if got := firing(t, series{checksSeries: 100_000, excludedSeries: 1}); len(got) > 0 {
		t.Errorf("of a policy that is never verified: %v", got)
	}
	reasons := 0
	for _, one := range exported(t) {
		name, labels, _ := strings.Cut(one, "{")
		if name != "understudy_verifications_total" || one == verifiedSeries {
			continue
		}
		reasons++
		usual := strings.Contains(labels, `reason="changed"`) || strings.Contains(labels, `reason="shutdown"`)
		got := firing(t, with(series{one: 40}))
		if !usual && !slices.Contains(got, "UnderstudyVerificationFails") || usual && len(got) > 0 {
			t.Errorf("of %s: %v", labels, got)
		}
		hardlyAny := strings.Contains(labels, "undecided") || strings.Contains(labels, "too_large") ||
			strings.Contains(labels, `"process"`) || strings.Contains(labels, `"panic"`)
		if got := firing(t, with(series{one: 1})); slices.Contains(got, "UnderstudyVerificationEnds") != hardlyAny {
			t.Errorf("of one of %s: %v", labels, got)
		}
	}
	if reasons < 13 {
		t.Errorf("there are %d reasons", reasons)
	}
}
