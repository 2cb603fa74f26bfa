package supervisor

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// metrics are the measurements of the rehearsal process.
type metrics struct {
	restarts    metric.Int64Counter
	suspensions metric.Int64Counter
}

func newMetrics(provider metric.MeterProvider, s *Supervisor) (*metrics, error) {
	meter := provider.Meter("understudy/authz/rehearsal")
	m := &metrics{}
	var errs [3]error
	m.restarts, errs[0] = meter.Int64Counter("understudy.rehearsal.restarts",
		metric.WithDescription("How often the rehearsal process ended and was started again, by cause. Live decisions are not affected."))
	m.suspensions, errs[1] = meter.Int64Counter("understudy.rehearsal.suspensions",
		metric.WithDescription("Experiments that ended the rehearsal process again and again, and are not evaluated any more."))
	errs[2] = errors.Join(observeMemory(meter, s), observeSuspended(meter, s))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	// An alert on a rise needs the zero.
	for _, c := range causes {
		m.restarts.Add(context.Background(), 0, labelled(c))
	}
	m.suspensions.Add(context.Background(), 0)
	return m, nil
}

func labelled(c cause) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String("cause", string(c))))
}

func (m *metrics) restarted(ctx context.Context, c cause) { m.restarts.Add(ctx, 1, labelled(c)) }

func (m *metrics) suspended(ctx context.Context) { m.suspensions.Add(ctx, 1) }

// observeMemory registers the gauge of the memory of the process.
func observeMemory(meter metric.Meter, s *Supervisor) error {
	gauge, err := meter.Int64ObservableGauge("understudy.rehearsal.memory", metric.WithUnit("By"),
		metric.WithDescription("Memory that the rehearsal process has for itself, of --rehearsal-memory; 0 while there is none."))
	if err != nil {
		return err
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s.mu.Lock()
		session := s.session
		s.mu.Unlock()
		used := int64(0)
		if session != nil {
			used, _ = session.child.Memory()
		}
		o.ObserveInt64(gauge, used)
		return nil
	}, gauge)
	return err
}

// observeSuspended registers the gauge of the experiments that are suspended now. A live policy whose
// verification is suspended does not count: that ends by itself.
func observeSuspended(meter metric.Meter, s *Supervisor) error {
	_, err := meter.Int64ObservableGauge("understudy.rehearsal.suspended",
		metric.WithDescription("Experiments that are suspended now: they ended the rehearsal process again and again, and are not evaluated until their content changes or they are started again."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			suspended := int64(0)
			for _, l := range s.lanes {
				if l.suspension == 0 && l.isSuspended() {
					suspended++
				}
			}
			o.Observe(suspended)
			return nil
		}))
	return err
}
