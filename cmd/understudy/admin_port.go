package main

import (
	"context"
	"net/http"
	"strings"

	"github.com/spf13/pflag"

	"understudy/admin"
	"understudy/admin/access"
	"understudy/admin/audit"
	"understudy/admin/authentication"
	"understudy/admin/authentication/browser"
	"understudy/admin/authentication/revocation"
	"understudy/admin/compactor"
	"understudy/admin/content"
	"understudy/admin/dataset"
	"understudy/admin/iam"
	"understudy/admin/policyfile"
	"understudy/admin/rest"
	"understudy/admin/ui"
	"understudy/authz"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/lifecycle"
	"understudy/cmd/understudy/port"
	"understudy/cmd/understudy/storage"
)

// adminConfig is what the admin API takes, and from whom.
type adminConfig struct {
	// adminAddr is host:port, on a loopback address unless the operator says otherwise.
	adminAddr string
	adminTLS  port.TLSFiles
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
	// maxDatasetSize is in bytes.
	maxDatasetSize int
	// policyfileRevisionIDs is verify or trust: whether the revision_id of a lock has to be
	// its hash, as Chef's tools compute it, or may be any, as Chef's server has it.
	policyfileRevisionIDs string
	ownerConfig
}

// bind declares the flags.
func (c *adminConfig) bind(f *pflag.FlagSet) {
	f.StringVar(&c.adminAddr, "admin-addr", "127.0.0.1:8181", "where the admin API listens, REST and gRPC: host:port")
	f.StringVar(&c.adminTLS.Cert, "admin-tls-cert", "", "a PEM file with the certificate chain of the admin API; it is read again when it changes")
	f.StringVar(&c.adminTLS.Key, "admin-tls-key", "", "a PEM file with its key")
	f.StringVar(&c.adminTLS.ClientCA, "admin-tls-client-ca", "", "a PEM file with the authorities of client certificates of the admin API (mTLS), which name their principal; they are required unless tokens are taken too")
	c.adminAuthentication.bind(f)
	c.chefConfig.bind(f)
	f.StringSliceVar(&c.adminHosts, "admin-host", nil, "a name by which the admin API may be asked on a loopback address, next to localhost: that of a proxy that keeps the Host it was asked by")
	f.BoolVar(&c.requirePassingTests, "require-passing-tests", false, "refuse a policy or an experiment whose own test_ rules fail; one without tests is accepted")
	f.StringVar(&c.policyfileRevisionIDs, "policyfile-revision-ids", "verify", "the revision_id of a new Policyfile lock: verify that it is the hash of the lock, or trust it")
	c.ownerConfig.bind(f)
	f.IntVar(&c.maxDatasetSize, "max-dataset-size", dataset.DefaultSize, "the largest content of a dataset, in bytes, up to 16 MiB; a sidecar takes about ten times as much memory for it")
	f.IntVar(&c.maxPolicySize, "max-policy-size", content.DefaultPolicySize, "the largest policy with its data, in bytes, up to 64 MiB; each revision and operation is kept at its size. Above the default, gRPC clients other than this command have to raise their own limit of 4 MiB")
}

// check calls check with each rule and whether it is kept. 64 MiB is what the transport
// and both stores are tested with.
func (c *adminConfig) check(check rule) {
	check(validAddress(c.adminAddr), "admin-addr", "it is host:port")
	check(c.adminTLS.Complete(), "admin-tls-cert", "it comes with --admin-tls-key, and --admin-tls-client-ca with both")
	c.adminAuthentication.check(check)
	c.chefConfig.check(check)
	check(command.OneOf(c.policyfileRevisionIDs, "verify", "trust"), "policyfile-revision-ids", "it is verify or trust")
	c.ownerConfig.check(check)
	check(0 <= c.maxDatasetSize && c.maxDatasetSize <= dataset.MaxSize, "max-dataset-size", "it is a number of bytes up to 16777216")
	check(0 <= c.maxPolicySize && c.maxPolicySize <= 64<<20, "max-policy-size", "it is a number of bytes up to 67108864")
}

// adminPort is the port of the admin API, with all that is next to it. It implements part.
type adminPort struct {
	*server
	api *rest.API
	ui  *ui.UI
	// authentication finds who asks; nil if nothing is configured for that.
	authentication *authentication.Authenticator
	// revoked are refused; nil if there is no such file.
	revoked *revocation.List
	// login gives browsers a session below /ui/; nil as authentication is.
	login *browser.Login
	http  *http.Server
	// guard keeps changes out of a store that has gone back.
	guard *admin.StoreGuard
	// compactor keeps the evidence in the store.
	compactor *compactor.Compactor
}

// serve answers, and keeps the store and who is known as they are to be until ctx is done.
func (p *adminPort) serve(ctx, _ context.Context, g *lifecycle.Group) {
	// Who stores policies asks whether they are kept; the user of a sidecar may not.
	g.Go("store", func() error { storage.WarnOfRisks(ctx, p.store, p.log); return nil })
	g.Go("functions", func() error { storage.KeepFunctions(ctx, p.store, p.log); return nil })
	g.Go("libraries", func() error { storage.WarnOfLibraries(ctx, p.store, p.log); return nil })
	g.Go("store guard", func() error { return p.guard.Watch(ctx) })
	g.Go("admin", func() error { return serveHTTP(p.http, p.listeners["admin"]) })
	if p.authentication != nil {
		g.Go("authentication", func() error { return p.authentication.Run(ctx, p.config.tlsReload) })
	}
	g.Go("compactor", func() error { return p.compactor.Run(ctx) })
}

// drain ends what waits for an operation or an event, and answers the calls under way.
func (p *adminPort) drain(ctx context.Context, _ *lifecycle.Group) error {
	p.api.Drain()
	p.ui.Drain()
	return drainHTTP(ctx, "admin", p.http)
}

// open makes the admin API and binds its port. REST, gRPC and the Policyfile API
// share the port, so the time of bodies and answers is bounded call by call: a deadline
// for the connection would end calls that wait for an operation.
func (p *adminPort) open(ctx context.Context) error {
	guard := rest.Guard{Hosts: p.config.restHosts()}
	if err := p.openAuthentication(guard); err != nil {
		return err
	}
	authorizer, err := p.newAuthorizer()
	if err != nil {
		return err
	}
	if p.guard, err = p.newGuard(); err != nil {
		return err
	}
	server, err := admin.NewServer(admin.Config{
		Store: p.store, Guard: p.guard, Authorizer: authorizer, Logger: p.log, Panics: p.panics, RequirePassingTests: p.config.requirePassingTests,
		MaxPolicySize: p.config.maxPolicySize, MaxDatasetSize: p.config.maxDatasetSize, Compiler: compiler{p.rehearsals},
	})
	if err != nil {
		return err
	}
	handler, err := p.adminHandler(server, authorizer, guard)
	if err != nil {
		return err
	}
	p.compactor = &compactor.Compactor{Store: p.store, Project: authz.ResourceName(p.config.Location).Project(), Logger: p.log}
	p.http = port.NewHTTP(port.UsualClientLimits.Handler(handler), p.log)
	files := p.config.adminTLS
	// A browser or a job with a token has no certificate, and neither has who signs.
	files.ClientOptional = p.config.tokens() || p.config.signatures()
	if err := p.secureHTTP(p.http, "admin", files); err != nil {
		return err
	}
	if err := p.bind(ctx, "admin", p.config.adminAddr); err != nil || p.authentication == nil {
		return err // without authentication nobody is known, and everybody may everything
	}
	return p.boundUnknown(p.http, "admin")
}

// adminHandler is the admin API and, next to it, the page at /ui/ and the Policyfile API,
// whose paths without an organization are about the project of this location.
func (p *adminPort) adminHandler(services *admin.Server, authorizer access.Authorizer, guard rest.Guard) (http.Handler, error) {
	mixin, err := iam.New(iam.Config{Admin: services, Authorizer: authorizer, Logger: p.log})
	if err != nil {
		return nil, err
	}
	recorder, err := p.openAudit()
	if err != nil {
		return nil, err
	}
	edge := rest.Config{
		Services: services, IAM: mixin, Authorizer: authorizer, Audit: recorder,
		MaxPolicySize: p.config.maxPolicySize, MaxDatasetSize: p.config.maxDatasetSize, Guard: guard, Logger: p.log, Panics: p.panics,
	}
	if p.authentication != nil {
		edge.Authenticator = p.authentication
	}
	if p.api, err = rest.New(edge); err != nil {
		return nil, err
	}
	keys, err := p.config.openKeyring(p.log)
	if err != nil {
		return nil, err
	}
	config := policyfile.Config{
		Admin:            services,
		Guard:            guard,
		Authenticator:    edge.Authenticator,
		Keys:             keys,
		Authorizer:       authorizer,
		IAM:              chefIAM{mixin}, // each route asks for its permissions and has its event
		Project:          authz.ResourceName(p.config.Location).Project(),
		TrustRevisionIDs: p.config.policyfileRevisionIDs == "trust",
		Audit:            recorder,
		Logger:           p.log,
		Panics:           p.panics,
	}
	if p.authentication != nil {
		config.CountSignature, config.Admit = p.authentication.CountSignature, p.authentication.Admit
	}
	api, err := policyfile.New(config)
	if err != nil {
		return nil, err
	}
	if err := p.openPage(edge); err != nil {
		return nil, err
	}
	all, err := p.outer(p.ui.Handler(api.Handler(p.api)), authorizer, guard)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all.ServeHTTP(w, recorder.Request(r, audit.Page)) // the APIs say so of their own
	}), nil
}

// openPage makes the page at /ui/ from what the API is made of. Anyone who is known to the API
// is known to it, and next to that who has a session of a browser.
func (p *adminPort) openPage(edge rest.Config) error {
	c := ui.Config{
		Services: p.api.Client(), Authorizer: edge.Authorizer, Location: p.config.Location,
		Guard: edge.Guard, Logger: edge.Logger, Panics: edge.Panics,
	}
	if p.login != nil {
		c.Login, c.Authenticator = p.login, p.login
	}
	var err error
	p.ui, err = ui.New(c)
	return err
}

// openAudit returns what records the changes through the admin API; nil if there is nowhere to
// send that to.
func (p *adminPort) openAudit() (*audit.Recorder, error) {
	to := p.telemetry.Audit
	if to == nil {
		return nil, nil
	}
	return audit.New(audit.Config{
		Logs: to, Slots: to, Required: p.config.audit.Required(), Node: p.config.node,
		Meters: p.telemetry.Meters, Propagator: p.telemetry.Propagator,
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
