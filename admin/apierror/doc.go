// Package apierror makes the errors of the admin API.
//
// An error is a status of gRPC with one [Reason], which a program can rely on, and the
// facts of its message by name (AIP-193); of what is wrong with a request it names the
// field, the rule and the fix, of a resource its type and name. REST and gRPC send the same
// status, and the Policyfile API translates it into Chef's form.
//
// Two rules hold for all of them. They never name the technology behind the API, nor the
// cause of a defect: those are for the log. And they are bounded, however large the request
// was that they quote, for they have to fit into the metadata that clients of gRPC accept.
package apierror
