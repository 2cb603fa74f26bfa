package diagnostics

import (
	"log/slog"

	"go.opentelemetry.io/otel/metric"
)

// Output is where a part of the data plane writes what its operator is to know. All fields
// are required.
type Output struct {
	Logger *slog.Logger
	Meters metric.MeterProvider
	Panics *Panics
}
