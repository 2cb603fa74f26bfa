// Package library is the policies of a project as RFC-042 sees them, for the Policyfile API
// in [understudy/admin/policyfile].
//
// A policy group is a location, and what is active in it is that location's live policy,
// whichever API made it so. Next to that, a project has documents (locks) under the name of
// a policy and the ID of a revision, and manifests of cookbook artifacts: they are kept
// byte for byte until they are removed, and no sidecar reads them.
//
// Every change is one transaction of [understudy/admin], with conditions on all that it was
// worked out from; so the calls of both APIs have one order.
package library
