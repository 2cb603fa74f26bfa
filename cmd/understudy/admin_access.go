package main

import (
	"github.com/spf13/pflag"

	"understudy/admin"
	"understudy/admin/access"
	"understudy/admin/iam"
	"understudy/authz"
)

// ownerConfig is who may everything in the admin API, whatever is bound.
type ownerConfig struct {
	// owners are members of bindings: principals and groups.
	owners []string
}

// bind declares the flags.
func (c *ownerConfig) bind(f *pflag.FlagSet) {
	f.StringSliceVar(&c.owners, "admin-owner", nil, "who may everything in the admin API, whatever is bound: a principal, such as token:alice or spiffe://example.org/ops, or group:ISSUER#NAME; repeatable")
}

// check calls check with each rule and whether it is kept.
func (c *ownerConfig) check(check rule) {
	for _, owner := range c.owners {
		err := access.CheckMember(owner)
		check(err == nil, "admin-owner", "it is a principal or a group, as bindings name them: spiffe://DOMAIN/PATH, cert:NAME, oidc:ISSUER#SUBJECT, group:ISSUER#NAME, token:NAME or chef:NAME")
		check(owner != access.AllAuthenticated, "admin-owner", "it is a principal or a group: that everybody owns everything is a binding of roles/understudy.owner")
	}
}

// newAuthorizer returns what says who may do what; nil if nobody is authenticated. Without an
// owner only those of earlier bindings may anything, which is said.
func (p *adminPort) newAuthorizer() (access.Authorizer, error) {
	if p.authentication == nil {
		return nil, nil
	}
	if len(p.config.owners) == 0 {
		p.log.Info("the admin API has no owner (--admin-owner): only who has a role by bindings may do anything")
	}
	return iam.NewAuthorizer(iam.AuthorizerConfig{Store: p.store, Owners: p.config.owners, Revoked: p.revoked, Logger: p.log})
}

// newGuard returns what keeps changes of others than owners out of a store that has gone back.
func (p *adminPort) newGuard() (*admin.StoreGuard, error) {
	return admin.NewStoreGuard(admin.StoreGuardConfig{
		Store: p.store, Location: authz.Location(p.config.Location), Authenticated: p.authentication != nil, Owners: p.config.owners,
		Logger: p.log, Meters: p.telemetry.Meters,
	})
}
