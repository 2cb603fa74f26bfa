// Package iam is the IAM mixin: who may do what is stored with resources, and every call is
// checked by it.
//
// A project, a location and a policy can have bindings, each of a role to members. They
// hold for the resource and for all below it, so what a caller may is found in at most three
// records ([Authorizer]), which are read for each check: what was revoked is refused from
// then on. An operation is named below a location, but may be read also by whoever may read
// those of the policy that it is about. [Service] is google.iam.v1.IAMPolicy, by which
// bindings are read and changed, and [Guard] stands before the services of the API: it checks
// each call by the table of [understudy/admin/access] before anything of it is looked at. The
// REST edge asks the same table before it reads a body.
//
// The package fails closed: a method that is not in the table is refused, bindings that
// cannot be read give nothing, and a store that is away is an error. Who sends a call is not
// its business: that is the [access.Principal] of the context.
package iam
