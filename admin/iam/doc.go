// Package iam is the IAM mixin: who may do what is stored with resources.
//
// A project, a location and a policy can have bindings, each of a role to members. They
// hold for the resource and for all below it, so what a caller may is found in at most three
// records ([Authorizer]), which are read for each check: what was revoked is refused from
// then on. An operation is named below a location, but may be read also by anyone who may read
// those of the policy that it is about. [Service] is google.iam.v1.IAMPolicy, by which
// bindings are read and changed. Every call is checked by the table of
// [understudy/admin/access] before it comes to a service: see [understudy/admin/rest].
//
// The package fails closed: bindings that cannot be read give nothing, and a store that is away
// is an error. Who sends a call is not its business: that is the [access.Principal] of the
// context.
//
// # How a check goes
//
//	who is revoked          nothing
//	who is an owner by flag everything
//	anyone else             the roles of the bindings of policy, location and project, read at one instant
//	and of an operation     those of the policy that it is about
package iam
