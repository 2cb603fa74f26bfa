// Package rest serves the admin API on a port: REST, gRPC, and the OpenAPI document.
//
// A request passes these steps in order: a [Guard] refuses what a browser sends for a page
// of another site, and a target that two programs could read differently; an authenticator
// finds who calls; the route table finds the call, and with it the permission that it needs,
// which an authorizer looks for; the query and the body are read, as JSON of bounded size
// and with numbers that a policy keeps; then the gateway calls the services, by a connection
// in this process. A gRPC call passes the same guard and the same authenticator.
//
// All ways to a service, that of the page with its [Client] too, go through one chain of
// interceptors: it turns panics into errors, records changes for the audit log, and checks the
// permission that a method needs, unless REST has before it read the body. What a method needs
// and whether it is recorded is a row of the table in [understudy/admin/access]. Whatever fails
// gets the envelope of AIP-193.
//
// The package knows the services as interfaces of [understudy/admin/v1] only. The Policyfile
// API is on the same port, and takes Guard, [ReadBody] and [IsJSON] from here, so that one
// rule holds for both.
package rest
