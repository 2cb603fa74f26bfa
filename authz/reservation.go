package authz

import "time"

// Reservation is what a Request asks about if it is not Envoy's: a lease of OpenStack
// Blazar. The documents are in the types of encoding/json, with numbers as
// json.Number, and must not be modified.
type Reservation struct {
	// Context says who asks: user_id, project_id, auth_url, region_name.
	Context map[string]any
	// Lease is the lease as it would be after the call.
	Lease map[string]any
	// Current is the lease as it is, for an update; nil otherwise.
	Current map[string]any
	// Project is the ID of the project that asks; it may be exempted.
	Project string
	// Start and End bound the lease as it would be. They are zero if the lease does not
	// say, and Invalid tells what is wrong if it says it in a way that cannot be read.
	Start, End time.Time
	Invalid    string
}
