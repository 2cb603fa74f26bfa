package apierror

import (
	"fmt"

	"google.golang.org/grpc/codes"
)

// Unauthenticated is UNAUTHENTICATED: there are no credentials, or bad ones. The
// description says which kind is missing, or what is wrong with them and how to fix it; it
// quotes nothing of them.
func Unauthenticated(description string) error {
	return New(codes.Unauthenticated, ReasonUnauthenticated, description, nil)
}

// Permission is what a caller lacks: a permission that roles have, or a route of the Policyfile API.
type Permission string

// PermissionDenied is PERMISSION_DENIED in the words of AIP-211. It is the same whether the
// resource exists or not.
func PermissionDenied(permission Permission, resource string) error {
	resource = Shown(resource)
	return New(codes.PermissionDenied, ReasonPermissionDenied,
		fmt.Sprintf("Permission '%s' denied on resource '%s' (or it might not exist).", permission, resource),
		Facts{"permission": string(permission), "resource": resource})
}

// IssuerUnavailable is UNAVAILABLE: the key of a token is not known, and its issuer cannot be asked
// for it now.
func IssuerUnavailable(issuer string) error {
	return New(codes.Unavailable, ReasonIssuerUnavailable,
		fmt.Sprintf("The issuer '%s' cannot be asked for its keys now, so this token cannot be verified. Try again in some seconds; if the issuer is away, the server's log says why.", issuer),
		Facts{"issuer": issuer})
}
