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

// Count returns a counter: the sum of its series that have a label of this value, or of all if the
// label is empty. A counter that does not exist is 0, so a test should also see it rise.
func (m Metrics) Count(t testing.TB, name, label, value string) (n int64) {
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
				if v, ok := p.Attributes.Value(attribute.Key(label)); label == "" || ok && v.AsString() == value {
					n += p.Value
				}
			}
		}
	}
	return n
}
