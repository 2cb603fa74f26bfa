// Package admin is the control plane: the API of policies, experiments and
// operations over a [Store].
//
// A [Server] implements the services of understudy.admin.v1 and
// google.longrunning.Operations; [understudy/admin/rest] puts them on a port. Each
// mutation reads what it depends on, checks it, compiles
// what may become live and then makes one [Txn], guarded by what was read; a Txn
// that loses a race is made again from the start, so concurrent calls have one
// order. Its answer is an operation that is done when every live sidecar of the
// location has applied the change; that is computed on read from what the sidecars
// report, so there is no background work to lose.
//
// The files follow the steps of a call. Names and lists are parsed first (name.go, list.go);
// a resource is read with its damage, if it has any (policy.go, experiment.go, config.go);
// what is to become live is checked and compiled (validate.go, compilers.go, selftest.go);
// the change is made (change.go) and its operation followed (operation.go, node.go). Errors
// of callers are those of [understudy/admin/apierror].
//
// What other packages build on is a [Change]: what a mutation has worked out. They work
// one out from what they have read (a [StoredPolicy], a [StoredConfig], a [Promotion]), and
// [Server.Mutate] makes it. So [understudy/admin/library] shows the same policies as
// RFC-042 sees them, with one order of all calls.
//
// The package guarantees that nothing is stored that does not compile, that every
// error has one machine-readable reason (AIP-193), and that a call with
// validate_only stores nothing (AIP-163). How records are kept is left to the
// stores, how requests are decided to [understudy/authz].
package admin
