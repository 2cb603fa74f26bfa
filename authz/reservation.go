package authz

import "time"

// Reservation is what a Request asks about if it is not Envoy's: a lease of OpenStack
// Blazar. The documents are in the types of encoding/json, with numbers as
// json.Number, and must not be modified.
type Reservation struct {
	// Context says who asks: user_id, project_id, auth_url, region_name.
	Context map[string]any
	// Lease is the lease as it would be after the call, as far as the caller says it: for
	// an update it has what is to change.
	Lease map[string]any
	// Current is the lease as it is, for an update; nil otherwise.
	Current map[string]any
	// Project is the ID of the project that asks; it may be exempted.
	Project string
	// Start and End bound the lease as it would be. They are zero if no lease does
	// say, and Invalid tells what is wrong if it says it in a way that cannot be read.
	Start, End time.Time
	Invalid    string
}

// defaultVerdict is the decision on a request where there is no policy. Envoy's is as
// configured. A reservation is allowed: a chain of filters in which nobody objects
// passes, and Blazar without one allows.
func (r *Request) defaultVerdict(configured Verdict) Verdict {
	if r.Reservation != nil {
		return Allow
	}
	return configured
}

// Compare is [Compare] by what the caller can tell apart. Blazar gets the verdict and the
// reason, and nothing of what is for Envoy.
func (r *Request) Compare(live, experiment Decision) Difference {
	if r.Reservation == nil {
		return Compare(live, experiment)
	}
	return Compare(live.toBlazar(), experiment.toBlazar())
}

// Changed is [Changed] by what the caller can tell apart: of what Blazar gets, the body is
// the reason.
func (r *Request) Changed(live, experiment Decision) []string {
	if r.Reservation == nil {
		return Changed(live, experiment)
	}
	names := Changed(live.toBlazar(), experiment.toBlazar())
	for i, name := range names {
		if name == "body" {
			names[i] = "reason"
		}
	}
	return names
}

// toBlazar is what Blazar gets of a decision.
func (d Decision) toBlazar() Decision {
	out := Decision{Verdict: d.Verdict, Failure: d.Failure}
	if d.Verdict == Deny {
		out.Body = d.Reason
	}
	return out
}
