package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/pflag"

	"understudy/admin"
	"understudy/authz"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/storage"
	"understudy/cmd/understudy/telemetry"
)

// config is what `serve` can be configured with. It is read from flags and environment
// here and nowhere else, and passed by value. Each part has its flags, and what they have
// to be, in a file of its own.
type config struct {
	storage.Config
	portsConfig
	authzConfig
	adminConfig
	healthConfig
	decisionsConfig
	shutdownConfig
	logConfig

	// node is the ID of this sidecar, unique in its location.
	node string
	// enable is authz, admin or both.
	enable []string

	// previewConsole prints preview records for people.
	previewConsole bool
	// preview is what shadow evaluations may cost; the live ones have decisionsConfig.
	preview      previewConfig
	rehearsal    rehearsalConfig
	decisionLog  telemetry.DecisionLog
	audit        telemetry.Audit
	external     externalConfig
	reservations reservationConfig
}

// rule is called with each rule of a flag and whether it is kept.
type rule func(ok bool, flag, says string)

// bind declares the flags.
// A flag and its environment variable are the same setting: command.FromEnvironment makes
// the variable of the name.
func (c *config) bind(f *pflag.FlagSet) {
	c.Bind(f)
	c.portsConfig.bind(f)
	c.authzConfig.bind(f)
	c.adminConfig.bind(f)
	c.healthConfig.bind(f)
	c.decisionsConfig.bind(f)
	c.shutdownConfig.bind(f)
	c.logConfig.bind(f)
	f.StringVar(&c.node, "node", "", "the ID of this sidecar (default the host name and a random suffix)")
	f.StringSliceVar(&c.enable, "enable", []string{"authz", "admin"}, "what to serve: authz, admin or both")
	f.BoolVar(&c.previewConsole, "preview-console", false, "print preview records for people on standard output")
	c.preview.bind(f)
	c.rehearsal.bind(f)
	c.decisionLog.Bind(f)
	c.audit.Bind(f)
	c.external.bind(f)
	c.reservations.bind(f)
}

// finish fills in the defaults that depend on the machine and checks all values, so that
// one start shows every mistake.
func (c *config) finish() error {
	if err := c.fillIn(); err != nil {
		return err
	}
	var errs []error
	check := func(ok bool, flag, says string) {
		if !ok {
			errs = append(errs, fmt.Errorf("--%s: %s", flag, says))
		}
	}
	c.check(check)
	c.checkObserve(check)
	c.portsConfig.check(check)
	c.authzConfig.check(check)
	c.adminConfig.check(check)
	c.healthConfig.check(check)
	c.decisionsConfig.check(check)
	c.shutdownConfig.check(check)
	c.logConfig.check(check)
	c.preview.check(check)
	c.rehearsal.check(check)
	c.decisionLog.Check(c.previewConsole, check)
	c.audit.Check(c.previewConsole || c.decisionLog.OnConsole(), check)
	c.external.check(check)
	c.reservations.check(c.enabled("authz"), check)
	errs = append(errs, telemetry.CheckEnvironment()...)
	if len(errs) > 0 {
		return command.Usage(errors.Join(errs...))
	}
	return nil
}

// check checks who this sidecar is and what it follows.
func (c *config) check(check rule) {
	check(storage.LocationPattern.MatchString(c.Location), "location", "it is like projects/default/locations/local")
	check(!strings.HasSuffix(c.Location, "/locations/"+admin.ReservedLocation), "location", admin.ReservedLocation+" is reserved: Policyfile locks are kept there")
	check(storage.IDPattern.MatchString(c.Policy), "policy", "an ID has letters, digits and characters of _.:-")
	check(c.validSelection(), "policies", "each is the ID of a policy, or the beginning of IDs with a * behind, such as team-*")
	check(authz.Selection(c.Policies).Has(authz.PolicyID(c.Policy)), "policies", "the policy of --policy has to be among them, which decides where a route names none")
	check(storage.IDPattern.MatchString(c.node), "node", "an ID has letters, digits and characters of _.:-")
	check(len(c.enable) > 0, "enable", "it is authz, admin or authz,admin")
	for _, e := range c.enable {
		check(command.OneOf(e, "authz", "admin"), "enable", "it is authz, admin or authz,admin")
	}
	c.checkAdmin(check)
}

// validSelection reports whether each element of --policies can name a policy.
func (c *config) validSelection() bool {
	return !slices.ContainsFunc(c.Policies, func(element string) bool { return !storage.SelectionPattern.MatchString(element) })
}

// checkObserve checks what --observe does not go with: an observer that denied, or that
// failed a request, would enforce.
func (c *config) checkObserve(check rule) {
	if !c.observe {
		return
	}
	check(c.failWithError == failNot, "observe", "an observer fails nobody, so it is not together with --fail-with-error")
	check(c.reservations.policy == "", "observe", "an observer refuses nobody, and reservations have nobody else to ask, so it is not together with --reservation-policy")
	check(c.enabled("authz"), "observe", "it is about decisions, so it needs --enable authz")
}

// fillIn sets the defaults that depend on the machine.
func (c *config) fillIn() error {
	if c.node == "" {
		host, err := os.Hostname()
		if err != nil || !storage.IDPattern.MatchString(host) {
			host = "node"
		}
		c.node = host + "-" + uuid.NewString()[:8]
	}
	return c.FillIn()
}

// enabled reports whether a half of the process is served: authz or admin.
func (c *config) enabled(what string) bool { return slices.Contains(c.enable, what) }

// logConfig is how the process logs.
type logConfig struct {
	// logFormat is text or json.
	logFormat string
	// logLevel is debug, info, warn or error.
	logLevel string
}

// bind declares the flags.
func (c *logConfig) bind(f *pflag.FlagSet) {
	f.StringVar(&c.logFormat, "log-format", "text", "the form of the log on standard error: text or json")
	f.StringVar(&c.logLevel, "log-level", "info", "what is logged: debug, info, warn or error")
}

// check calls check with each rule and whether it is kept.
func (c *logConfig) check(check rule) {
	check(command.OneOf(c.logFormat, "text", "json"), "log-format", "it is text or json")
	check(command.OneOf(c.logLevel, "debug", "info", "warn", "error"), "log-level", "it is debug, info, warn or error")
}

// newLogger returns a logger that writes to w.
func (c *logConfig) newLogger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.level()}
	if c.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// level returns the level of slog. It never fails: check has been there before.
func (c *logConfig) level() slog.Level {
	var l slog.Level
	if err := l.UnmarshalText([]byte(c.logLevel)); err != nil {
		return slog.LevelInfo
	}
	return l
}

// serveFlags orders the flags of serve by what one wants to set.
var serveFlags = []command.FlagGroup{
	{Title: "What it follows, and who it is", Names: []string{"store", "store-password-file", "store-ca-file", "store-cert-file", "store-key-file", "location", "policy", "policies", "node", "enable", "snapshot-file"}},
	{Title: "Where it listens", Names: []string{
		"authz-addr", "authz-socket-mode", "http-authz-addr", "http-authz-path-prefix",
		"admin-addr", "admin-host", "allow-unauthenticated-admin", "health-addr",
	}},
	{Title: "Decisions", Names: []string{"default-decision", "decision-timeout", "fail-with-error", "decision-id-header", "observe", "grpc-descriptor-set", "token-payload", "duplicate-keys", "body-memory", "decision-cache"}},
	{Title: "Who may ask the admin API", Names: []string{"admin-owner", "admin-revoked-file", "admin-token-file", "admin-oidc-issuer", "admin-url", "admin-tls-client-ca", "admin-tls-in-front", "chef-key"}},
	{Title: "What the admin API takes", Names: []string{"require-passing-tests", "max-policy-size", "max-dataset-size", "policyfile-revision-ids"}},
	{Title: "Previews", Names: []string{"preview-console", "preview-*", "rehearsal-*"}},
	{Title: "Decision log", Names: []string{"decision-log", "decision-log-*"}},
	{Title: "Audit log", Names: []string{"audit", "audit-console"}},
	{Title: "External services that policies name", Names: []string{"external-*"}},
	{Title: "Reservations of OpenStack Blazar", Names: []string{"reservation-policy", "reservation-addr", "reservation-*"}},
	{Title: "TLS", Names: []string{"authz-tls-*", "http-authz-tls-*", "admin-tls-*", "tls-*"}},
	{Title: "Connections and shutdown", Names: []string{"authz-*", "drain-delay", "shutdown-timeout"}},
	{Title: "This program", Names: []string{"log-level", "log-format", "help"}},
}
