package diagnostics

import (
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Labels distinguish measurements. There are few values of each type, for
// each is a series of its own and is kept.
type Labels interface {
	comparable
	// Attributes returns them for OpenTelemetry, each with a key of its own.
	Attributes() []attribute.KeyValue
}

// Options holds labels as options of measurements, so that each is made once. The zero
// value is empty. It is safe for concurrent use.
type Options struct {
	// known :: Labels → metric.MeasurementOption.
	known sync.Map
}

// Option returns labels as an option, made on first use.
func Option[L Labels](o *Options, l L) metric.MeasurementOption {
	if made, ok := o.known.Load(l); ok {
		return made.(metric.MeasurementOption)
	}
	made := metric.WithAttributeSet(attribute.NewSet(l.Attributes()...))
	o.known.Store(l, made)
	return made
}
