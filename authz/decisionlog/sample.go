package decisionlog

import (
	"context"
	"sync/atomic"

	"understudy/authz"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// keptBy is why a decision is logged by a log that is a sample. It is a metric label, and in
// the events.
type keptBy string

const (
	// keptByDenied: every denial is logged, failures too.
	keptByDenied keptBy = "denied"
	// keptByChance: the decision stands for others.
	keptByChance keptBy = "chance"
	// keptByDifference: chance had left it out, and then an experiment decided otherwise.
	keptByDifference keptBy = "difference"
	// leftOut is that of decisions that are not logged.
	leftOut keptBy = "left_out"
)

// sampleInfo is what an event says of the sample that it is in.
type sampleInfo struct {
	// Rate is the part of the allowed decisions that chance keeps. One that chance has kept
	// stands for 1/Rate of them; a denial stands for itself, and what was kept for its
	// difference for none but itself, since those that chance has kept stand for it.
	Rate   float64 `json:"rate"`
	KeptBy keptBy  `json:"kept_by"`
}

// sample chooses what a log has, and counts that. Nil chooses everything.
type sample struct {
	rate                              float64
	denied, chance, difference, lefts atomic.Int64
}

// newSample returns the sample of a configuration; nil if nothing is left out.
func newSample(c Config) *sample {
	if c.Sample == nil {
		return nil
	}
	return &sample{rate: *c.Sample}
}

// choose says why a decision that was just made is logged.
func (s *sample) choose(d Decided) keptBy {
	switch {
	case d.Decision.Effect == authz.Deny:
		s.denied.Add(1)
		return keptByDenied
	case authz.Sampled(d.Request.ID, s.rate):
		s.chance.Add(1)
		return keptByChance
	}
	s.lefts.Add(1)
	return leftOut
}

// missed reports whether choose has left a decision out.
func (s *sample) missed(d Decided) bool {
	return d.Decision.Effect != authz.Deny && !authz.Sampled(d.Request.ID, s.rate)
}

// measure registers the counter of what was chosen.
func (s *sample) measure(meter metric.Meter) error {
	if s == nil {
		return nil
	}
	counter, err := meter.Int64ObservableCounter("understudy.decision_log.sampled",
		metric.WithDescription("Decisions, by why a decision log that is a sample has them: denied, chance, difference (left out by chance before), left_out."))
	if err != nil {
		return err
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for why, n := range map[keptBy]*atomic.Int64{keptByDenied: &s.denied, keptByChance: &s.chance, keptByDifference: &s.difference, leftOut: &s.lefts} {
			o.ObserveInt64(counter, n.Load(), metric.WithAttributes(attribute.String("kept_by", string(why))))
		}
		return nil
	}, counter)
	return err
}
