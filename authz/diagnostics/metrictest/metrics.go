// Package metrictest has metrics that tests read.
package metrictest

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// Metrics are what a provider of metrics measured. Reading them does not reset them.
type Metrics struct {
	Provider metric.MeterProvider
	reader   *sdkmetric.ManualReader
}

// New returns a provider that has measured nothing.
func New() Metrics {
	reader := sdkmetric.NewManualReader()
	return Metrics{sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), reader}
}

// Count returns a counter: the sum of its series that have all of these labels, whose values are
// strings. A counter that does not exist is 0, so a test should also see it rise.
func (m Metrics) Count(t testing.TB, name string, labels ...attribute.KeyValue) (n int64) {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := m.reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, found := range scope.Metrics {
			data, ok := found.Data.(metricdata.Sum[int64])
			if !ok || found.Name != name {
				continue
			}
			for _, p := range data.DataPoints {
				if hasAll(p.Attributes, labels) {
					n += p.Value
				}
			}
		}
	}
	return n
}

// hasAll reports whether a series has all of these labels.
func hasAll(series attribute.Set, labels []attribute.KeyValue) bool {
	for _, label := range labels {
		if v, ok := series.Value(label.Key); !ok || v.AsString() != label.Value.AsString() {
			return false
		}
	}
	return true
}
