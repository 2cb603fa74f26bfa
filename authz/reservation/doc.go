// Package reservation answers OpenStack Blazar, which asks before it makes or changes
// a lease and notifies when one ends (its ExternalServiceFilter), over HTTP.
//
// A [Handler] turns a call into an [authz.Request], asks its [Decider] and turns the
// [authz.Decision] into what Blazar understands: exactly 204 without a body for yes,
// 403 with a JSON object whose only field is message for no. Blazar takes every other
// status for no as well and shows its users a text of its own. It has no timeout, and
// an update whose connection is dropped puts the lease into ERROR: so every call is
// answered, and the body of a call that is refused is read before, for Blazar sends all
// of it before it reads.
//
// # Paths
//
// With a base path B these are served by POST; the version may be left out, because
// Blazar joins URLs in a way that drops it from a base URL without a slash at its end.
//
//	B/v1/check-create  B/check-create   {"context", "lease"}                   204 or 403
//	B/v1/check-update  B/check-update   {"context", "current_lease", "lease"}  204 or 403
//	B/v1/on-end        B/on-end         {"context", "lease"}                   204
//
// # Statuses
//
// The token in X-Auth-Token is looked at before anything else. The first that applies:
//
//	401  the token is missing or wrong
//	404  there is no such call
//	405  the method is not POST
//	415  the body is not application/json in UTF-8
//	429  too many calls are under way: of checks, or of ends
//	413  the body is too large
//	400  the body is not JSON, has a name twice in an object or is too deep; or a field
//	     that the call needs is missing or no object
//	403  the policy denies, or could not decide
//	204  the policy allows, or the call is on-end
//
// An end is a notification, not a check: no decision changes its 204, and JSON that names no
// lease is answered with 204 too, but reaches no policy.
//
// # What a policy sees
//
// The input is {"operation", "context", "lease", "current_lease"}: what Blazar sent, as
// it sent it, with numbers as they were written. Operation is check_create,
// check_update or on_end; only an update has current_lease. The lease of an update has
// what its caller wants to change and little more; a policy that needs the rest takes it
// from current_lease, as the example in deploy/examples/reservations does. The
// allocations of a reservation are Blazar's candidates for its resource type, those of an
// update for the reservation as it was (_allocation_candidates in manager/service.py): how
// much a reservation asks for is its max or amount.
//
// The facts of an [authz.Reservation] are of the lease as it would be: a date that the
// update does not name is that of current_lease. The project is the one that the
// context names, and nothing else, for a policy may exempt it.
//
// Anyone who can read the port's traffic sees projects, users and the token, and can forge
// answers: beyond one machine it belongs behind TLS.
package reservation
