// Package adminpb is the admin API: its messages and services, which are generated from
// admin.proto, and what the control plane and the sidecars both need to know of it.
package adminpb

// What the control plane and the sidecars both need to know of the API, next to its
// messages.
const (
	// ErrorDomain is the domain of every ErrorInfo of this project (AIP-193): those of the
	// API's errors, and those in which a sidecar reports what it could not apply.
	ErrorDomain = "understudy.internal"
	// MaxRules is the number of rules that a policy may have. The control plane refuses
	// more of them, and no sidecar compiles them.
	MaxRules = 100
)
