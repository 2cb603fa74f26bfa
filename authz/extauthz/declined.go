package extauthz

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// declined says why a view does not read a request, which is decoded in full then: that
// costs several times as much, and its decision is not cached. The zero value says that
// it does. What a view declines is never an error by itself; the full decode finds out.
type declined uint8

const (
	// readable: it is not declined.
	readable declined = iota
	// declinedEmpty: the request has no attributes.
	declinedEmpty
	// declinedWire: the wire is broken, or a field has another type than its own.
	declinedWire
	// declinedText: a text is not UTF-8.
	declinedText
	// declinedField: there is a field that a view does not know.
	declinedField
	// declinedRawHeaders: the headers are a list with raw values (encode_raw_headers).
	declinedRawHeaders
	// declinedRepeated: a message comes twice, which protocol buffers merge.
	declinedRepeated
	// declinedShape: an address, a time or metadata is unusual: nested too deep, with an
	// unknown field, with text that is not UTF-8 or a number that is not finite.
	declinedShape
	// declinedTarget: the path or the query does not parse, or may not.
	declinedTarget
	// wholeInput: a view has read the request, and something asks for all of it: a
	// policy that reads its input as a whole, the decision log, or a verification.
	wholeInput
	// allDeclined is the number of the values above.
	allDeclined
)

var declinedNames = [allDeclined]string{
	"", "empty", "wire", "utf8", "unknown_field", "raw_headers", "repeated_message", "unusual_message", "path_or_query", "whole_input",
}

// String returns the reason as metric labels have it; empty for readable.
func (d declined) String() string { return declinedNames[d] }

// decodes counts requests that were decoded in full. The zero value counts nothing. It
// is safe for concurrent use.
type decodes struct {
	counter metric.Int64Counter
	// options are the labels, made once.
	options [allDeclined]metric.MeasurementOption
}

// WithMeters measures: understudy.full_decodes counts the requests that were decoded in
// full, by reason. The error is the provider's.
func WithMeters(provider metric.MeterProvider) (Option, error) {
	counter, err := provider.Meter("understudy/extauthz").Int64Counter("understudy.full_decodes",
		metric.WithDescription("CheckRequests that were decoded in full, by reason. A decision on one is cached only if the reason is whole_input."))
	if err != nil {
		return nil, fmt.Errorf("making the metrics: %w", err)
	}
	d := decodes{counter: counter}
	for why := readable + 1; why < allDeclined; why++ {
		d.options[why] = metric.WithAttributeSet(attribute.NewSet(attribute.String("reason", why.String())))
		// An alert on a rise needs the zero.
		counter.Add(context.Background(), 0, d.options[why])
	}
	return func(s *Server) { s.decodes = d }, nil
}

func (d *decodes) count(why declined) {
	if d.counter != nil {
		d.counter.Add(context.Background(), 1, d.options[why])
	}
}
