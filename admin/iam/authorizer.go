package iam

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"understudy/admin"
	"understudy/admin/access"
	"understudy/admin/apierror"
)

// AuthorizerConfig is what an Authorizer needs.
type AuthorizerConfig struct {
	// Store keeps the bindings. Required.
	Store admin.Store
	// Owners are members who may everything, whatever is bound, so that nobody is locked
	// out.
	Owners []string
	// Revoked are refused everything, owners too. Nil means nobody.
	Revoked access.Revocations
	// Logger gets the causes of errors, which callers do not see. Nil means none.
	Logger *slog.Logger
}

// Authorizer is access.Authorizer of stored bindings. It keeps nothing of what it has read:
// each check reads the bindings of the resource and of what it is in, at one instant. It is
// safe for concurrent use.
//
// A cache of bindings would be faster by one read of the store for each call of the admin API, and
// would have to hear of every change on every server: calls are rare, and a role that was taken
// away is gone at once.
type Authorizer struct {
	store   admin.Store
	owners  []string
	revoked access.Revocations
	log     *slog.Logger
}

var _ access.Authorizer = (*Authorizer)(nil)

// NewAuthorizer returns an Authorizer.
func NewAuthorizer(c AuthorizerConfig) (*Authorizer, error) {
	if c.Store == nil {
		return nil, errors.New("iam: AuthorizerConfig.Store is required")
	}
	a := &Authorizer{store: c.Store, owners: slices.Clone(c.Owners), revoked: c.Revoked, log: c.Logger}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	return a, nil
}

// Authorize implements access.Authorizer.
func (a *Authorizer) Authorize(ctx context.Context, p access.Permission, resource string) error {
	granted, err := a.Permitted(ctx, resource, []access.Permission{p})
	if err != nil {
		return err
	}
	if len(granted) == 0 {
		return apierror.PermissionDenied(apierror.Permission(p), resource)
	}
	return nil
}

// Permitted implements access.Authorizer. A name that is malformed has the permissions of
// what it is in, as far as that can be read of it. An operation, whose name has no policy,
// may be read also by anyone who may read those of the policy that it is about: who may make a
// call may see what becomes of it.
func (a *Authorizer) Permitted(
	ctx context.Context, resource string, permissions []access.Permission,
) ([]access.Permission, error) {
	who := access.FromContext(ctx)
	// Before owners: somebody whose token was stolen has nothing, whatever is bound.
	if a.revoked != nil && a.revoked.Revoked(who) {
		return nil, nil // a call may have begun before
	}
	if slices.ContainsFunc(a.owners, who.Is) {
		return slices.Clone(permissions), nil
	}
	// The resource with what it is in, as far as bindings can be there: policy, location, project.
	lineage := admin.Lineage(resource)
	if len(lineage) == 0 || !who.Known() {
		return nil, nil
	}
	return a.bound(ctx, resource, lineage, permissions)
}

// bound returns those of some permissions on a resource that bindings give to the caller: those
// of the resource, and of what it is in.
func (a *Authorizer) bound(
	ctx context.Context, resource string, lineage []admin.Key, permissions []access.Permission,
) (granted []access.Permission, err error) {
	who := access.FromContext(ctx)
	roles, unreadable, err := a.rolesOf(ctx, who, lineage)
	if err != nil {
		return nil, err
	}
	for _, p := range permissions {
		has := gives(roles, p)
		// The operation itself is read only if nothing else gives the permission: it costs two more reads.
		if !has && p == access.OperationsGet && unreadable == nil {
			if has, err = a.byTarget(ctx, who, resource); err != nil {
				return nil, err
			}
		}
		if has {
			granted = append(granted, p)
		}
	}
	// What is missing may be in the bindings that cannot be read, so the answer is an error and no
	// denial: who gets a 403 looks for the wrong cause.
	if len(granted) < len(permissions) && unreadable != nil {
		return nil, unreadable
	}
	return granted, nil
}

// gives reports whether one of some roles has a permission.
func gives(roles []access.Role, p access.Permission) bool {
	return slices.ContainsFunc(roles, func(r access.Role) bool { return r.Has(p) })
}

// byTarget reports whether a resource is an operation about a policy whose operations a
// principal may read. One that is not there is about none, and bindings of the policy that
// cannot be read give nothing: an error would say that the operation is there.
func (a *Authorizer) byTarget(ctx context.Context, who access.Principal, resource string) (bool, error) {
	policy, err := admin.PolicyOfOperation(ctx, a.store, resource)
	if err != nil {
		return false, admin.StoreFailed(ctx, a.log, "reading what "+resource+" is about", err)
	}
	if policy == "" {
		return false, nil
	}
	roles, _, err := a.rolesOf(ctx, who, []admin.Key{policy})
	return gives(roles, access.OperationsGet), err
}

// rolesOf returns the roles that a principal has by the bindings of some resources. Bindings
// that cannot be read give none, and their error is returned next to the roles: anyone who has
// enough by others needs them not.
func (a *Authorizer) rolesOf(
	ctx context.Context, who access.Principal, lineage []admin.Key,
) (roles []access.Role, unreadable, err error) {
	keys := make([]admin.Key, len(lineage))
	for i, resource := range lineage {
		keys[i] = admin.IAMPolicyOf(resource)
	}
	records, err := a.store.Get(ctx, keys...)
	if err != nil {
		return nil, nil, admin.StoreFailed(ctx, a.log, "reading the bindings of "+string(lineage[len(lineage)-1]), err)
	}
	for i, r := range records {
		b := readBindings(lineage[i], "", r)
		if b.damage != nil {
			unreadable = b.unreadable(ctx, a.log)
			continue
		}
		for _, binding := range b.policy.GetBindings() {
			if slices.ContainsFunc(binding.GetMembers(), who.Is) {
				roles = append(roles, access.Role(binding.GetRole()))
			}
		}
	}
	return roles, unreadable, nil
}
