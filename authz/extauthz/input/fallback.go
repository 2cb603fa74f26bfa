package input

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Fallback says why a request is decoded in full, which costs several times as much as the
// lazy decoder; its decision is not cached then. It is never an error by itself: the full
// decode finds out. The zero value says that it is not decoded in full.
type Fallback uint8

// The reasons for a full decode.
const (
	// none: the lazy decoder reads the request.
	none Fallback = iota
	// FallbackEmpty: the request has no attributes.
	FallbackEmpty
	// FallbackWire: the wire is broken, or a field has another type than its own.
	FallbackWire
	// FallbackText: a text is not UTF-8.
	FallbackText
	// FallbackField: there is a field that Envoy's descriptors do not have.
	FallbackField
	// FallbackRawHeaders: the headers are a list with raw values (encode_raw_headers).
	FallbackRawHeaders
	// FallbackRepeated: a message comes twice, which protocol buffers merge.
	FallbackRepeated
	// FallbackUnusual: an address, a time or metadata is unusual: nested too deep, with an
	// unknown field, with text that is not UTF-8 or a number that is not finite.
	FallbackUnusual
	// FallbackTarget: the path or the query does not parse, or may not.
	FallbackTarget
	// wholeInput: the lazy decoder has read the request, and something asks for all of it: a
	// policy that reads its input as a whole, the decision log, or a verification.
	wholeInput
	// allFallbacks is the number of the values above.
	allFallbacks
)

var fallbackNames = [allFallbacks]string{
	"", "empty", "wire", "utf8", "unknown_field", "raw_headers", "repeated_message", "unusual_message", "path_or_query", "whole_input",
}

// String returns the reason as metric labels have it; empty for none.
func (f Fallback) String() string { return fallbackNames[f] }

// Decodes counts requests that were decoded in full. The zero value counts nothing. It is
// safe for concurrent use.
type Decodes struct {
	counter metric.Int64Counter
	// options are the labels, made once.
	options [allFallbacks]metric.MeasurementOption
}

// NewDecodes makes the metric understudy.full_decodes: the requests that were decoded in
// full, by reason. The error is the provider's.
func NewDecodes(provider metric.MeterProvider) (Decodes, error) {
	counter, err := provider.Meter("understudy/extauthz").Int64Counter("understudy.full_decodes",
		metric.WithDescription("CheckRequests that were decoded in full, by reason. A decision on one is cached only if the reason is whole_input."))
	if err != nil {
		return Decodes{}, fmt.Errorf("making the metrics: %w", err)
	}
	d := Decodes{counter: counter}
	for f := none + 1; f < allFallbacks; f++ {
		d.options[f] = metric.WithAttributeSet(attribute.NewSet(attribute.String("reason", f.String())))
		// An alert on a rise needs the zero.
		counter.Add(context.Background(), 0, d.options[f])
	}
	return d, nil
}

func (d *Decodes) count(f Fallback) {
	if d.counter != nil {
		d.counter.Add(context.Background(), 1, d.options[f])
	}
}
