package main

import (
	"github.com/spf13/pflag"

	"understudy/admin"
	"understudy/admin/access"
	"understudy/admin/iam"
	"understudy/admin/rest"
	"understudy/cmd/understudy/storage"
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

// guardedServices are the services of the admin API and IAM, which check every call if there
// is an authorizer.
func (s *server) guardedServices(services *admin.Server, authorizer access.Authorizer) (rest.Config, error) {
	mixin, err := iam.New(iam.Config{Admin: services, Authorizer: authorizer, Logger: s.log})
	if err != nil {
		return rest.Config{}, err
	}
	if authorizer == nil {
		return rest.Config{Services: services, IAM: mixin}, nil
	}
	guard := iam.NewGuard(services, mixin, authorizer)
	return rest.Config{Services: guard, IAM: guard, Authenticator: s.authentication, Authorizer: authorizer}, nil
}

// newAuthorizer returns what says who may do what; nil if nobody is authenticated. Without an
// owner only those of earlier bindings may anything, which is said.
func (s *server) newAuthorizer(st storage.Store) (access.Authorizer, error) {
	if s.authentication == nil {
		return nil, nil
	}
	if len(s.config.owners) == 0 {
		s.log.Info("the admin API has no owner (--admin-owner): only who has a role by bindings may do anything")
	}
	return iam.NewAuthorizer(iam.AuthorizerConfig{Store: st, Owners: s.config.owners, Revoked: s.revoked, Logger: s.log})
}
