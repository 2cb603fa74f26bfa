package main

import (
	"context"
	"net/http"
	"strings"

	"github.com/spf13/pflag"

	"understudy/admin"
	"understudy/admin/access"
	"understudy/admin/audit"
	"understudy/admin/content"
	"understudy/admin/policyfile"
	"understudy/admin/rest"
	"understudy/admin/settler"
	"understudy/admin/ui"
	"understudy/authz"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/port"
	"understudy/cmd/understudy/storage"
)

// adminConfig is what the admin API takes, and from whom.
type adminConfig struct {
	adminAuthentication
	chefConfig
	// adminHosts are further names by which the API may be asked on a loopback address. A
	// page in a browser can make a name of its own lead there (DNS rebinding); names that
	// are not known are refused.
	adminHosts []string
	// requirePassingTests refuses policies whose own test_ rules fail.
	requirePassingTests bool
	// maxPolicySize is in bytes.
	maxPolicySize int
	// policyfileRevisionIDs is verify or trust: whether the revision_id of a lock has to be
	// its hash, as Chef's tools compute it, or may be any, as Chef's server has it.
	policyfileRevisionIDs string
	ownerConfig
}

// bind declares the flags.
func (c *adminConfig) bind(f *pflag.FlagSet) {
	c.adminAuthentication.bind(f)
	c.chefConfig.bind(f)
	f.StringSliceVar(&c.adminHosts, "admin-host", nil, "a name by which the admin API may be asked on a loopback address, beside localhost: that of a proxy that keeps the Host it was asked by")
	f.BoolVar(&c.requirePassingTests, "require-passing-tests", false, "refuse a policy or an experiment whose own test_ rules fail; one without tests is accepted")
	f.StringVar(&c.policyfileRevisionIDs, "policyfile-revision-ids", "verify", "the revision_id of a new Policyfile lock: verify that it is the hash of the lock, or trust it")
	c.ownerConfig.bind(f)
	f.IntVar(&c.maxPolicySize, "max-policy-size", content.DefaultPolicySize, "the largest policy with its data, in bytes, up to 64 MiB; each revision and operation is kept at its size. Above the default, gRPC clients other than this command have to raise their own limit of 4 MiB")
}

// check calls check with each rule and whether it is kept. 64 MiB is what the transport
// and both stores are tested with.
func (c *adminConfig) check(check rule) {
	c.adminAuthentication.check(check)
	c.chefConfig.check(check)
	check(command.OneOf(c.policyfileRevisionIDs, "verify", "trust"), "policyfile-revision-ids", "it is verify or trust")
	c.ownerConfig.check(check)
	check(0 <= c.maxPolicySize && c.maxPolicySize <= 64<<20, "max-policy-size", "it is a number of bytes up to 67108864")
}

// openAdmin makes the admin API and binds its port. REST, gRPC and the Policyfile API
// share the port, so the pace of bodies and answers is bounded call by call: a deadline
// for the connection would end calls that wait for an operation.
func (s *server) openAdmin(ctx context.Context, st storage.Store) error {
	guard := rest.Guard{Hosts: s.config.restHosts()}
	if err := s.openAuthentication(guard); err != nil {
		return err
	}
	authorizer, err := s.newAuthorizer(st)
	if err != nil {
		return err
	}
	server, err := admin.NewServer(admin.Config{
		Store: st, Authorizer: authorizer, Logger: s.log, Panics: s.panics, RequirePassingTests: s.config.requirePassingTests,
		MaxPolicySize: s.config.maxPolicySize, Compiler: compiler{s.rehearsals},
	})
	if err != nil {
		return err
	}
	handler, err := s.adminHandler(server, authorizer, guard)
	if err != nil {
		return err
	}
	s.settler = &settler.Settler{Store: st, Project: authz.ResourceName(s.config.Location).Project(), Logger: s.log}
	s.adminHTTP = port.NewHTTP(port.UsualPace.Handler(handler), s.log)
	files := s.config.adminTLS
	// A browser or a job with a token has no certificate, and neither has who signs.
	files.ClientOptional = s.config.tokens() || s.config.signatures()
	if err := s.secureHTTP(s.adminHTTP, "admin", files); err != nil {
		return err
	}
	if err := s.bind(ctx, "admin", s.config.adminAddr); err != nil || s.authentication == nil {
		return err // without authentication nobody is known, and everybody may everything
	}
	return s.boundUnknown(s.adminHTTP, "admin")
}

// adminHandler is the admin API and, beside it, the page at /ui/ and the Policyfile API,
// whose paths without an organization are about the project of this location.
func (s *server) adminHandler(services *admin.Server, authorizer access.Authorizer, guard rest.Guard) (http.Handler, error) {
	edge, err := s.guardedServices(services, authorizer)
	if err != nil {
		return nil, err
	}
	recorder, err := s.openAudit()
	if err != nil {
		return nil, err
	}
	bindings := chefIAM{edge.IAM} // the Policyfile API records its calls itself, one event each
	edge.Services, edge.IAM, edge.Audit = rest.Audited(edge.Services, recorder), rest.AuditedIAM(edge.IAM, recorder), recorder
	edge.MaxPolicySize, edge.Guard, edge.Logger, edge.Panics = s.config.maxPolicySize, guard, s.log, s.panics
	if s.admin, err = rest.New(edge); err != nil {
		return nil, err
	}
	keys, err := s.config.openKeyring(s.log)
	if err != nil {
		return nil, err
	}
	config := policyfile.Config{
		Admin:            services,
		Guard:            guard,
		Authenticator:    edge.Authenticator,
		Keys:             keys,
		Authorizer:       authorizer,
		IAM:              bindings,
		Project:          authz.ResourceName(s.config.Location).Project(),
		TrustRevisionIDs: s.config.policyfileRevisionIDs == "trust",
		Audit:            recorder,
		Logger:           s.log,
		Panics:           s.panics,
	}
	if s.authentication != nil {
		config.CountSignature, config.Admit = s.authentication.CountSignature, s.authentication.Admit
	}
	api, err := policyfile.New(config)
	if err != nil {
		return nil, err
	}
	if err := s.openPage(edge); err != nil {
		return nil, err
	}
	all, err := s.beside(s.ui.Handler(api.Handler(s.admin)), authorizer, guard)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all.ServeHTTP(w, recorder.Request(r, audit.Page)) // the APIs say so of their own
	}), nil
}

// openPage makes the page at /ui/ from what the API is made of. Whoever is known to the API
// is known to it, and beside that who has a session of a browser.
func (s *server) openPage(edge rest.Config) error {
	c := ui.Config{
		Services: edge.Services, Authorizer: edge.Authorizer, Location: s.config.Location,
		Guard: edge.Guard, Logger: edge.Logger, Panics: edge.Panics,
	}
	if s.login != nil {
		c.Login, c.Authenticator = s.login, s.login
	}
	var err error
	s.ui, err = ui.New(c)
	return err
}

// openAudit returns what records the changes through the admin API; nil if there is nowhere to
// send that to.
func (s *server) openAudit() (*audit.Recorder, error) {
	to := s.telemetry.Audit
	if to == nil {
		return nil, nil
	}
	return audit.New(audit.Config{
		Logs: to, Places: to, Required: s.config.audit.Required(), Node: s.config.node,
		Meters: s.telemetry.Meters, Propagator: s.telemetry.Propagator,
	})
}

// restHosts are the names by which the admin API may be asked; nil is any. Pages in a
// browser of this machine can reach a loopback address; what is before another one
// authenticates its callers.
func (c *config) restHosts() []string {
	if !loopback(c.adminAddr) {
		return nil
	}
	hosts := []string{}
	for _, name := range c.adminHosts {
		hosts = append(hosts, strings.ToLower(name))
	}
	return hosts
}
