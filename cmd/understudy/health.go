package main

import (
	"encoding/json"
	"net/http"
	"sync/atomic"
	"time"

	"understudy/admin/authentication/revocation"
	"understudy/authz"
	"understudy/authz/sidecar"
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
	// StoreLostSeconds is for how long the store has not answered.
	StoreLostSeconds float64 `json:"storeLostSeconds,omitempty"`
	// StoreError is why it does not.
	StoreError string `json:"storeError,omitempty"`
	// MissingPolicies are the IDs of policies that decide here although the store has
	// lost them, the first maxNamed of MissingCount.
	MissingPolicies []string `json:"missingPolicies,omitempty"`
	// MissingCount is all of them.
	MissingCount int `json:"missingPolicyCount,omitempty"`
	// NotApplied are the names of policies and experiments that could not be applied, the
	// first maxNamed of NotAppliedCount. The last good version of a policy decides;
	// without one it denies.
	NotApplied []string `json:"notApplied,omitempty"`
	// NotAppliedCount is all of them.
	NotAppliedCount int `json:"notAppliedCount,omitempty"`
	// Help says what to do about it.
	Help string `json:"help,omitempty"`
	// RevokedFileError is what is wrong with the file of revoked principals. Whoever was
	// revoked before stays so.
	RevokedFileError string `json:"revokedFileError,omitempty"`
	// AbsentPolicy is the ID of --policy, if there is no such policy: requests that name
	// none get the default decision.
	AbsentPolicy string `json:"absentPolicy,omitempty"`
	// AbsentHelp says what to do about that.
	AbsentHelp string `json:"absentPolicyHelp,omitempty"`
}

// maxNamed bounds the policies that readiness names.
const maxNamed = 10

// health serves what a platform asks a process: whether it lives, whether it may
// get traffic, and its metrics.
type health struct {
	// config is read for names and for the default decision.
	config config
	// bound is written until the ports are open, and only read then.
	bound   map[string]string
	sidecar *sidecar.Sidecar // nil if this process decides nothing
	revoked *revocation.List // nil if nobody is revoked
	// listening is closed when the gRPC port listens.
	listening <-chan struct{}
	// metrics is the page of telemetry.
	metrics http.Handler
	// draining is set at the beginning of the shutdown.
	draining atomic.Bool
}

// handler serves three pages. /healthz answers as long as the process runs: a platform
// must not restart a sidecar whose store is away, for it still decides by the last
// policies.
func (h *health) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", h.serveReady)
	mux.Handle("GET /metrics", h.metrics)
	return mux
}

// serveReady answers 200 or 503, and with either what an operator wants to know.
func (h *health) serveReady(w http.ResponseWriter, _ *http.Request) {
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
func (h *health) readiness() readiness {
	r := readiness{
		Ready: true, Version: version, Location: h.config.Location, Bound: h.bound,
	}
	r.RevokedFileError = h.revoked.Problem()
	if h.sidecar != nil {
		status := h.sidecar.Status()
		r.Observing = h.config.observe
		r.Node, r.Sequence, r.Policies = h.config.node, status.Sequence, status.Policies
		r.setStore(status)
		r.setAbsent(status, h.config.verdict())
		r.NotAppliedCount = len(status.NotApplied)
		r.NotApplied = status.NotApplied[:min(r.NotAppliedCount, maxNamed)]
		switch {
		case !status.Ready:
			r.Ready, r.Reason = false, "the location has not been loaded yet"
		case !closed(h.listening):
			r.Ready, r.Reason = false, "the port for Envoy is about to be opened"
		}
	}
	if h.draining.Load() {
		r.Ready, r.Reason = false, "shutting down"
	}
	return r
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
	r.StoreLostSeconds = status.Age().Truncate(time.Millisecond).Seconds()
	if status.Lost != nil {
		r.StoreError = status.Lost.Error()
	}
	if r.MissingCount = len(status.Missing); r.MissingCount == 0 {
		return
	}
	for _, name := range status.Missing[:min(r.MissingCount, maxNamed)] {
		r.MissingPolicies = append(r.MissingPolicies, string(name.ID()))
	}
	r.Help = "The store has lost these policies; the last ones decide on. " + sidecar.MissingHelp + "."
}

// setAbsent says that the policy of --policy is not there. That is no fault of this
// sidecar: it may be about to be created.
func (r *readiness) setAbsent(status sidecar.Status, byDefault authz.Verdict) {
	if status.Absent == "" {
		return
	}
	r.AbsentPolicy = string(status.Absent)
	r.AbsentHelp = authz.AbsentDefaultHelp(status.Absent, byDefault)
}
