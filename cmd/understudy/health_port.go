package main

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/metric"

	"understudy/authz"
	"understudy/authz/sidecar"
	"understudy/cmd/understudy/lifecycle"
	"understudy/cmd/understudy/port"
)

// readiness is the answer of /readyz.
type readiness struct {
	// Ready says whether this process may get traffic; the status code says the same.
	Ready bool `json:"ready"`
	// Reason is why it is not ready.
	Reason string `json:"reason,omitempty"`
	// Version, Location and Node say which process answers: ports on a laptop get mixed
	// up.
	Version  string `json:"version"`
	Location string `json:"location"`
	Node     string `json:"node,omitempty"`
	// Observing says that decisions are not enforced.
	Observing bool `json:"observing,omitempty"`
	// Bound :: authz, http-authz, reservation, admin, health → address.
	Bound map[string]string `json:"addresses"`
	// Sequence is the last change of the store that was applied.
	Sequence int64 `json:"sequence"`
	// Policies is how many decide here.
	Policies int `json:"policies"`
	// Followed are those of --policies; absent if all policies of the location decide here.
	Followed []string `json:"followedPolicies,omitempty"`
	// StoreLostSeconds is for how long the store has not answered.
	StoreLostSeconds float64 `json:"storeLostSeconds,omitempty"`
	// StoreError is why it does not.
	StoreError string `json:"storeError,omitempty"`
	// MissingPolicies are the IDs of policies that decide here although the store has
	// lost them, the first maxNamed of MissingCount.
	MissingPolicies []string `json:"missingPolicies,omitempty"`
	// MissingCount is all of them.
	MissingCount int `json:"missingPolicyCount,omitempty"`
	// StaleInStore are the IDs of policies of which the store has an older version than decides
	// here, the first maxNamed of StaleCount.
	StaleInStore []string `json:"staleInStore,omitempty"`
	// StaleCount is all of them.
	StaleCount int `json:"staleInStoreCount,omitempty"`
	// StoreWentBack says what it means that the store has lost its last changes, if a server of the
	// admin API or a sidecar knows that.
	StoreWentBack string `json:"storeWentBack,omitempty"`
	// NotApplied are the names of policies and experiments that could not be applied, the
	// first maxNamed of NotAppliedCount. The last good version of a policy decides;
	// without one it denies.
	NotApplied []string `json:"notApplied,omitempty"`
	// NotAppliedCount is all of them.
	NotAppliedCount int `json:"notAppliedCount,omitempty"`
	// Help says what to do about it.
	Help string `json:"help,omitempty"`
	// RevokedFileError is what is wrong with the file of revoked principals. Anyone who was
	// revoked before stays so.
	RevokedFileError string `json:"revokedFileError,omitempty"`
	// StoreFileError is what is wrong with the files of certificates of connections to the store.
	// New connections use the last valid ones.
	StoreFileError string `json:"storeFileError,omitempty"`
	// AbsentPolicy is the ID of --policy, if there is no such policy: requests that name
	// none get the default decision.
	AbsentPolicy string `json:"absentPolicy,omitempty"`
	// AbsentHelp says what to do about that.
	AbsentHelp string `json:"absentPolicyHelp,omitempty"`
}

// maxNamed bounds the policies that readiness names.
const maxNamed = 10

// healthPort serves what a platform asks a process: whether it lives, whether it may
// get traffic, and its metrics. It is always there, and implements part.
type healthPort struct {
	*server
	authz *authzPort // nil if this process decides nothing
	admin *adminPort // nil if it has no admin API
	http  *http.Server
	// draining is set at the beginning of the shutdown.
	draining atomic.Bool
}

// healthConfig is where the port is.
type healthConfig struct {
	// healthAddr is host:port.
	healthAddr string
}

// bind declares the flags.
func (c *healthConfig) bind(f *pflag.FlagSet) {
	f.StringVar(&c.healthAddr, "health-addr", "127.0.0.1:8282", "where /healthz, /readyz and /metrics are: host:port")
}

// check calls check with each rule and whether it is kept.
func (c *healthConfig) check(check rule) {
	check(validAddress(c.healthAddr), "health-addr", "it is host:port")
}

// open binds the port.
func (h *healthPort) open(ctx context.Context) error {
	if err := h.bind(ctx, "health", h.config.healthAddr); err != nil {
		return err
	}
	h.http = port.NewHTTP(h.handler(), h.log)
	// Nothing on it takes a body or lasts long.
	h.http.ReadTimeout, h.http.WriteTimeout = port.HeaderTimeout, port.AnswerTimeout
	if err := h.observeReady(); err != nil {
		return err
	}
	return h.boundUnknown(h.http, "health") // and nobody is asked who it is
}

// serve answers until the port is drained.
func (h *healthPort) serve(_, _ context.Context, g *lifecycle.Group) {
	g.Go("health", func() error { return serveHTTP(h.http, h.listeners["health"]) })
}

// leave says, over HTTP and gRPC, that this process is not ready any more.
func (h *healthPort) leave() {
	h.draining.Store(true)
	if h.authz != nil {
		h.authz.health.Shutdown()
	}
}

// drain answers the calls under way and takes no more.
func (h *healthPort) drain(ctx context.Context, _ *lifecycle.Group) error {
	return drainHTTP(ctx, "health", h.http)
}

// handler serves three pages. /healthz answers as long as the process runs: a platform
// must not restart a sidecar whose store is away, for it still decides by the last
// policies.
func (h *healthPort) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", h.serveReady)
	mux.Handle("GET /metrics", h.telemetry.Page)
	return mux
}

// serveReady answers 200 or 503, and with either what an operator wants to know.
func (h *healthPort) serveReady(w http.ResponseWriter, _ *http.Request) {
	r := h.readiness()
	w.Header().Set("Content-Type", "application/json")
	if !r.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(r)
}

// readiness: a sidecar is ready once it has loaded its location, even if that is
// empty, and stays so when the store is lost, for it still decides by the last
// policies.
func (h *healthPort) readiness() readiness {
	r := readiness{
		Ready: true, Version: version, Location: h.config.Location, Bound: h.bound,
		StoreFileError: h.storeCertificates.Problem(),
	}
	wentBack := false
	if h.admin != nil {
		r.RevokedFileError = h.admin.revoked.Problem()
		wentBack = h.admin.guard.WentBack()
		r.setLost(h.admin.guard.StoreLost())
	}
	if h.authz != nil {
		status := h.authz.sidecar.Status()
		wentBack = wentBack || status.WentBack
		r.Observing, r.Followed = h.config.observe, h.config.Policies
		r.Node, r.Sequence, r.Policies = h.config.node, status.Sequence, status.Policies
		r.setStore(status)
		r.setAbsent(status, h.config.effect())
		r.NotAppliedCount = len(status.NotApplied)
		r.NotApplied = status.NotApplied[:min(r.NotAppliedCount, maxNamed)]
		switch {
		case !status.Ready:
			r.Ready, r.Reason = false, "the location has not been loaded yet"
		case !closed(h.authz.listening):
			r.Ready, r.Reason = false, "the port for Envoy is about to be opened"
		}
	}
	if wentBack {
		r.StoreWentBack = "The store has gone back: it has lost its last changes. " + authz.WentBackHelp + "."
	}
	if h.draining.Load() {
		r.Ready, r.Reason = false, "shutting down"
	}
	return r
}

// observeReady makes the gauge that says what /readyz does, for those who alert by metrics alone.
func (h *healthPort) observeReady() error {
	_, err := h.telemetry.Meters.Meter("understudy/health").Int64ObservableGauge("understudy.ready",
		metric.WithDescription("1 while /readyz answers 200, else 0."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			value := int64(0)
			if h.readiness().Ready {
				value = 1
			}
			o.Observe(value)
			return nil
		}))
	return err
}

// closed reports whether an event has happened, without waiting for it.
func closed(event <-chan struct{}) bool {
	select {
	case <-event:
		return true
	default:
		return false
	}
}

// setStore says what is wrong with the store. None of it makes a sidecar that has
// policies less ready: others that follow the same store are no better off.
func (r *readiness) setStore(status sidecar.Status) {
	r.setLost(status.Age(), status.Lost)
	r.MissingPolicies, r.MissingCount = named(status.Missing)
	r.StaleInStore, r.StaleCount = named(status.Stale)
	if r.MissingCount > 0 {
		r.Help = "The store has lost policies; the last ones decide on. " + sidecar.MissingHelp + ". "
	}
	if r.StaleCount > 0 {
		r.Help += "The store has gone back to older versions of policies; the newer ones decide on. " + sidecar.StaleHelp + "."
	}
	r.Help = strings.TrimSpace(r.Help)
}

// setLost says for how long the store has not answered, and why.
func (r *readiness) setLost(since time.Duration, err error) {
	if err != nil {
		r.StoreLostSeconds, r.StoreError = since.Truncate(time.Millisecond).Seconds(), err.Error()
	}
}

// named returns the IDs of the first maxNamed policies, and how many there are.
func named(policies []authz.PolicyName) (ids []string, count int) {
	for _, name := range policies[:min(len(policies), maxNamed)] {
		ids = append(ids, string(name.ID()))
	}
	return ids, len(policies)
}

// setAbsent says that the policy of --policy is not there. That is no fault of this
// sidecar: it may be about to be created.
func (r *readiness) setAbsent(status sidecar.Status, byDefault authz.Effect) {
	if status.Absent == "" {
		return
	}
	r.AbsentPolicy = string(status.Absent)
	r.AbsentHelp = authz.AbsentDefaultHelp(status.Absent, byDefault)
}
