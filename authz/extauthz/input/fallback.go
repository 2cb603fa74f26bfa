package input

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Fallback says why a request is decoded in full, which costs several times as much as the
// lazy decoder. It is never an error by itself: the full
// decode finds out. The zero value says that it is not decoded in full.
type Fallback string

// The reasons for a full decode, as metric labels have them.
const (
	// none: the lazy decoder reads the request.
	none Fallback = ""
	// FallbackEmpty: the request has no attributes.
	FallbackEmpty Fallback = "empty"
	// FallbackWire: the wire is broken, or a field has another type than its own.
	FallbackWire Fallback = "wire"
	// FallbackText: a text is not UTF-8.
	FallbackText Fallback = "utf8"
	// FallbackField: there is a field that Envoy's descriptors do not have.
	FallbackField Fallback = "unknown_field"
	// FallbackRawHeaders: the headers are a list with raw values (encode_raw_headers).
	FallbackRawHeaders Fallback = "raw_headers"
	// FallbackRepeated: a message comes twice, which protocol buffers merge.
	FallbackRepeated Fallback = "repeated_message"
	// FallbackUnusual: an address, a time or metadata is unusual: nested too deep, with an
	// unknown field, with text that is not UTF-8 or a number that is not finite.
	FallbackUnusual Fallback = "unusual_message"
	// FallbackTarget: the path or the query does not parse, or may not.
	FallbackTarget Fallback = "path_or_query"
	// wholeInput: the lazy decoder has read the request, and something asks for all of it: a
	// policy that reads its input as a whole, the decision log, or a verification.
	wholeInput Fallback = "whole_input"
)

// allFallbacks are the values above without none.
var allFallbacks = []Fallback{
	FallbackEmpty, FallbackWire, FallbackText, FallbackField, FallbackRawHeaders, FallbackRepeated, FallbackUnusual,
	FallbackTarget, wholeInput,
}

// Decodes counts requests that were decoded in full. The zero value counts nothing. It is
// safe for concurrent use.
type Decodes struct {
	counter metric.Int64Counter
	// options are the labels, made once.
	options map[Fallback]metric.MeasurementOption
}

// NewDecodes makes the metric understudy.full_decodes: the requests that were decoded in
// full, by reason. The error is the provider's.
func NewDecodes(provider metric.MeterProvider) (Decodes, error) {
	counter, err := provider.Meter("understudy/extauthz").Int64Counter("understudy.full_decodes",
		metric.WithDescription("CheckRequests that were decoded in full, by reason."))
	if err != nil {
		return Decodes{}, fmt.Errorf("making the metrics: %w", err)
	}
	d := Decodes{counter: counter, options: make(map[Fallback]metric.MeasurementOption)}
	for _, f := range allFallbacks {
		d.options[f] = metric.WithAttributeSet(attribute.NewSet(attribute.String("reason", string(f))))
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
