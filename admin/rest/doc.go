// Package rest serves the admin API on a port: REST, gRPC, and the OpenAPI document.
//
// A request passes these steps in order: a [Guard] refuses what a browser sends for a page
// of another site, and a target that two programs could read differently; the route table
// finds the call; the body is read, as JSON of bounded size and with numbers that a policy
// keeps; then the gateway calls the services in this process. A gRPC call passes the same
// guard and goes to the same services. Whatever fails gets the envelope of AIP-193.
//
// The package knows the services as interfaces of [understudy/admin/v1] only. The Policyfile
// API is on the same port, and takes Guard, [ReadBody] and [IsJSON] from here, so that one
// rule holds for both.
package rest
