// Package access is the model of who may do what: a Principal sends a request, a role
// gives it permissions, and the bindings of a resource and of all above it give it roles.
//
// It knows no HTTP and no store. Who sends a request is found by admin/authentication;
// where bindings are kept is admin/iam, and that every call is checked is admin/rest.
package access
