package sidecar

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"understudy/authz"
	"understudy/authz/decisionlog"
	"understudy/authz/extservice"
	"understudy/authz/rehearsal"
	"understudy/authz/rehearsal/supervisor"
)

// Config is what a Sidecar needs. Feed, Location and Node are required; the zero
// value of every other field is a safe default.
type Config struct {
	// Feed delivers the policies.
	Feed authz.Feed
	// Scope is the location, which is the set of sidecars that this one belongs to, and the policies
	// of it that are followed. A request that names another one is denied.
	authz.Scope
	// Policy decides the requests whose route chooses none.
	Policy authz.PolicyID
	// Node is the ID of this sidecar, unique in its location.
	Node string
	// Observing says that nobody enforces the decisions: records, events of the decision
	// log, metrics and the node say so.
	Observing bool
	// Default is the decision on a check of Envoy's where there is no policy, or one
	// without rules. A reservation is allowed there.
	Default authz.Effect
	// DecisionTimeout bounds a live decision, from when it is looked for, next to the deadline of the
	// call, and without the time for which it waits for others. Zero means no further bound.
	DecisionTimeout time.Duration
	// Experiments says how experiments are previewed.
	Experiments
	// Cache is the number of decisions that are cached for each live policy. Zero means 65,536; a negative
	// number means none.
	Cache int
	// BodyMemory bounds the memory that what is read of bodies takes at a time, in bytes;
	// beyond it a request whose body a policy reads is denied. Zero means 64 MiB.
	BodyMemory int64
	// External bounds the calls of external services.
	External extservice.Config
	// DecisionLog says whether and how live decisions are logged.
	DecisionLog decisionlog.Config
	// SnapshotFile keeps the last policies, for a start without the store. Empty
	// means none.
	SnapshotFile string
	// Logger gets changes and failures. Nil means nothing is logged.
	Logger *slog.Logger
	// Meters makes the metrics. Nil means none.
	Meters metric.MeterProvider
}

// Experiments is how experiments are previewed. Its zero value is that they are not.
type Experiments struct {
	// Rehearsal compiles and evaluates experiments, and live decisions again, in another
	// process. Nil means that neither is done. It has to outlive the sidecar.
	Rehearsal *supervisor.Supervisor
	// Preview bounds the shadow evaluations.
	Preview rehearsal.Limits
	// Recorder gets each comparison. Nil means that there are no records.
	Recorder *rehearsal.Recorder
}

// defaultCache is the number of decisions that are cached for a live policy.
const defaultCache = 64 << 10

func (c Config) withDefaults() (Config, error) {
	if c.Feed == nil || c.Location == "" || c.Node == "" {
		return c, errors.New("sidecar: Config.Feed, Location and Node are required")
	}
	if c.Policy != "" && !c.Policies.Has(c.Policy) {
		return c, errors.New("sidecar: Config.Policy is none of Config.Policies")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Meters == nil {
		c.Meters = noop.NewMeterProvider()
	}
	c.Cache = cmp.Or(c.Cache, defaultCache)
	return c, nil
}

// node is the sidecar as records name it.
func (c Config) node() authz.Node {
	return authz.Node{Location: c.Location, ID: c.Node, Observing: c.Observing}
}
