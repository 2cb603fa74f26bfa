package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// metricsPage returns the page of metrics as a client asks for it.
func (r *running) metricsPage(t *testing.T, accept string) (contentType, page string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+r.bound["health"]+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", accept)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.Header.Get("Content-Type"), string(content)
}

const openMetrics = "application/openmetrics-text; version=1.0.0"

// TestMetricsPage is the page of a server that exports no traces: in the form that is asked
// for, without labels of the instrumentation's scope, and without exemplars.
func TestMetricsPage(t *testing.T) {
	r := startServer(t, nil)
	r.check(t, "GET")
	for accept, want := range map[string]string{openMetrics: "application/openmetrics-text", "text/plain": "text/plain", "": "text/plain"} {
		contentType, page := r.metricsPage(t, accept)
		if !strings.HasPrefix(contentType, want) || strings.HasSuffix(page, "# EOF\n") != (accept == openMetrics) {
			t.Errorf("%q is answered as %q", accept, contentType)
		}
		if !strings.Contains(page, "understudy_checks_total{") || strings.Contains(page, "otel_scope") || strings.Contains(page, "trace_id=") {
			t.Errorf("%q: the page is\n%s", accept, page)
		}
	}
}

// TestExemplars: where traces are exported, a metric leads to the trace of a check.
func TestExemplars(t *testing.T) {
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	t.Cleanup(collector.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", collector.URL+"/v1/traces")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf")
	r := startServer(t, nil)
	r.check(t, "GET")
	_, page := r.metricsPage(t, openMetrics)
	for _, metric := range []string{"understudy_checks_total{", "understudy_check_duration_seconds_bucket{"} {
		found := false
		for line := range strings.Lines(page) {
			found = found || strings.HasPrefix(line, metric) && strings.Contains(line, "trace_id=")
		}
		if !found {
			t.Errorf("%s has no exemplar on\n%s", metric, page)
		}
	}
	if _, page := r.metricsPage(t, "text/plain"); strings.Contains(page, "trace_id=") {
		t.Errorf("the text format has exemplars:\n%s", page)
	}
}

// TestSeriesOfAnExperiment: they are there with a zero before the first request, and end with
// the experiment.
func TestSeriesOfAnExperiment(t *testing.T) {
	t.Parallel()
	r := startServer(t, nil)
	series := func(value string) string {
		return `understudy_preview_comparisons_total\{difference="NEWLY_DENIED",experiment="shop/e1",failure="",policy="shop",policy_result="ALLOW"\} ` + value + "\n"
	}
	const dropped = `understudy_preview_dropped_total\{experiment="shop/e1",policy="shop",reason="queue_full"\} 0`
	if _, page := r.metricsPage(t, ""); strings.Contains(page, `experiment="`) {
		t.Errorf("without experiments there are series of one:\n%s", page)
	}
	r.preview(t)
	r.awaitMetric(t, series("0"))
	r.awaitMetric(t, dropped)
	r.check(t, "GET")
	r.awaitMetric(t, series("1"))
	r.call(t, "admin", "DELETE", policies+"/shop/experiments/e1", "")
	for deadline := time.Now().Add(scriptTime); ; {
		_, page := r.metricsPage(t, "")
		if !strings.Contains(page, `experiment="`) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("a deleted experiment still has series:\n%s", page)
		}
	}
}
