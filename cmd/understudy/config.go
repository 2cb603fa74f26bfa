package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/pflag"

	"understudy/admin"
	"understudy/authz"
	"understudy/authz/extauthz"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/port"
	"understudy/cmd/understudy/storage"
	"understudy/cmd/understudy/telemetry"
)

// config is what `serve` can be told. It is read from flags and environment here
// and nowhere else, and passed by value.
type config struct {
	authzAddr  string
	adminAddr  string
	healthAddr string

	httpAuthzAddr       string
	httpAuthzPathPrefix string

	storage.Config

	node   string
	enable []string

	defaultDecision  string
	decisionTimeout  time.Duration
	failWithError    string
	decisionIDHeader string
	observe          bool
	descriptorSet    string
	previewConsole   bool
	preview          previewConfig
	decisionMemory   int
	bodyMemory       int64
	decisionLog      telemetry.DecisionLog
	external         externalConfig
	reservations     reservationConfig

	allowUnauthenticatedAdmin bool
	adminHosts                []string
	drainDelay                time.Duration
	requirePassingTests       bool
	maxPolicySize             int
	policyfileRevisionIDs     string
	shutdownTimeout           time.Duration
	logFormat                 string
	logLevel                  string

	authzSocketMode string
	authzTLS        port.TLSFiles
	httpAuthzTLS    port.TLSFiles
	adminTLS        port.TLSFiles
	tlsMinVersion   string
	tlsReload       time.Duration
	connections     port.Connections
}

// bind declares the flags.
func (c *config) bind(f *pflag.FlagSet) {
	f.StringVar(&c.authzAddr, "authz-addr", "127.0.0.1:9191", "where Envoy asks: host:port (:0 for any port) or unix:///path")
	f.StringVar(&c.httpAuthzAddr, "http-authz-addr", "", "where proxies ask over HTTP, Envoy's HTTP service and forward authentication: host:port or unix:///path (default not at all)")
	f.StringVar(&c.httpAuthzPathPrefix, "http-authz-path-prefix", "/envoy", "the path_prefix of Envoy's HTTP service; / if it has none, which turns forward authentication off")
	f.StringVar(&c.adminAddr, "admin-addr", "127.0.0.1:8181", "where the admin API listens, REST and gRPC: host:port")
	f.StringVar(&c.healthAddr, "health-addr", "127.0.0.1:8282", "where /healthz, /readyz and /metrics are: host:port")
	c.Config.Bind(f)
	f.StringVar(&c.node, "node", "", "the ID of this sidecar (default the host name and a random suffix)")
	f.StringSliceVar(&c.enable, "enable", []string{"authz", "admin"}, "what to serve: authz, admin or both")
	f.StringVar(&c.defaultDecision, "default-decision", "deny", "the decision where there is no policy: deny or allow")
	f.DurationVar(&c.decisionTimeout, "decision-timeout", 100*time.Millisecond, "the longest time for one decision; past it the request is denied")
	f.StringVar(&c.failWithError, "fail-with-error", failNot, "answer a policy's failure with an error, so that Envoy's failure_mode_allow decides, instead of a denial: "+
		"a gRPC error, or with =response an error_response, whose metadata Envoy 1.38 and later have in the access log and 1.36 makes a 403")
	f.Lookup("fail-with-error").NoOptDefVal = failError
	f.StringVar(&c.decisionIDHeader, "decision-id-header", "", "a header by which a client that is denied over gRPC is told the decision ID, such as x-decision-id; over HTTP it always is (default none)")
	f.BoolVar(&c.observe, "observe", false, "decide and record as always, and refuse nobody: every answer is OK without an edit; to watch beside an authorizer that enforces")
	f.BoolVar(&c.previewConsole, "preview-console", false, "print preview records for people on standard output")
	c.preview.bind(f)
	f.Int64Var(&c.bodyMemory, "body-memory", 64<<20, "the memory for what policies read of bodies at a time, in bytes: a body takes about 500 for each of its values; beyond it a request whose body is read is denied with 503")
	f.IntVar(&c.decisionMemory, "decision-memory", 65_536, "how many decisions each policy remembers, of about 200 bytes, and an experiment a quarter of that; 0 for none")
	c.decisionLog.Bind(f)
	c.external.bind(f)
	c.reservations.bind(f)
	f.BoolVar(&c.allowUnauthenticatedAdmin, "allow-unauthenticated-admin", false, "let the admin API listen beyond this machine, although it asks nobody who he is")
	f.StringSliceVar(&c.adminHosts, "admin-host", nil, "a name by which the admin API may be asked on a loopback address, beside localhost: that of a proxy that keeps the Host it was asked by")
	f.DurationVar(&c.shutdownTimeout, "shutdown-timeout", 10*time.Second, "the longest time for requests under way at shutdown, after the drain delay")
	f.DurationVar(&c.drainDelay, "drain-delay", 0, "how long the ports stay open at shutdown while readiness is gone already, so that no new request comes to a closed port: "+
		"for one of several sidecars, and then longer than the interval in which Envoy or the platform asks for health; a single sidecar needs 0s, for it would be taken out with nobody in its place")
	f.BoolVar(&c.requirePassingTests, "require-passing-tests", false, "refuse a policy or an experiment whose own test_ rules fail; one without tests is accepted")
	f.StringVar(&c.policyfileRevisionIDs, "policyfile-revision-ids", "verify", "the revision_id of a new Policyfile lock: verify that it is the hash of the lock, or trust it")
	f.IntVar(&c.maxPolicySize, "max-policy-size", admin.DefaultPolicySize, "the largest policy with its data, in bytes, up to 64 MiB; each revision and operation is kept at its size. Above the default, gRPC clients other than this command have to raise their own limit of 4 MiB")
	f.StringVar(&c.logFormat, "log-format", "text", "the form of the log on standard error: text or json")
	f.StringVar(&c.logLevel, "log-level", "info", "what is logged: debug, info, warn or error")
	c.bindListening(f)
}

// finish fills in the defaults that depend on the machine and checks all values,
// so that every mistake is told at once.
func (c *config) finish() error {
	if err := c.fillIn(); err != nil {
		return err
	}
	var errs []error
	check := func(ok bool, flag, rule string) {
		if !ok {
			errs = append(errs, fmt.Errorf("--%s: %s", flag, rule))
		}
	}
	check(storage.LocationPattern.MatchString(c.Location), "location", "it is like projects/default/locations/local")
	check(!strings.HasSuffix(c.Location, "/locations/global"), "location", "global is reserved: Policyfile locks are kept there")
	check(storage.IDPattern.MatchString(c.Policy), "policy", "an ID has letters, digits and characters of _.:-")
	check(storage.IDPattern.MatchString(c.node), "node", "an ID has letters, digits and characters of _.:-")
	check(command.OneOf(c.defaultDecision, "deny", "allow"), "default-decision", "it is deny or allow")
	check(command.OneOf(c.logFormat, "text", "json"), "log-format", "it is text or json")
	check(command.OneOf(c.logLevel, "debug", "info", "warn", "error"), "log-level", "it is debug, info, warn or error")
	check(command.OneOf(c.policyfileRevisionIDs, "verify", "trust"), "policyfile-revision-ids", "it is verify or trust")
	check(command.OneOf(c.failWithError, failNot, failError, failResponse), "fail-with-error", "it is true, false or response")
	if _, err := extauthz.WithDecisionIDHeader(c.decisionIDHeader); c.decisionIDHeader != "" && err != nil {
		check(false, "decision-id-header", err.Error())
	}
	check(c.decisionTimeout > 0, "decision-timeout", "it is a duration above zero, such as 100ms")
	check(0 <= c.maxPolicySize && c.maxPolicySize <= 64<<20, "max-policy-size", "it is a number of bytes up to 67108864")
	check(c.shutdownTimeout > 0, "shutdown-timeout", "it is a duration above zero, such as 10s")
	check(c.drainDelay >= 0, "drain-delay", "it is a duration such as 5s")
	check(!c.observe || c.failWithError == failNot, "observe", "an observer fails nobody, so it is not together with --fail-with-error")
	check(!c.observe || c.reservations.policy == "", "observe", "an observer refuses nobody, and reservations have nobody else to ask, so it is not together with --reservation-policy")
	check(!c.observe || c.enabled("authz"), "observe", "it is about decisions, so it needs --enable authz")
	c.validateListening(check)
	check(validAddress(c.authzAddr) || strings.HasPrefix(c.authzAddr, port.UnixScheme), "authz-addr", "it is host:port or unix:///path")
	check(c.httpAuthzAddr == "" || validAddress(c.httpAuthzAddr) || strings.HasPrefix(c.httpAuthzAddr, port.UnixScheme),
		"http-authz-addr", "it is host:port or unix:///path")
	if err := c.httpAuthz().Validate(); err != nil {
		errs = append(errs, fmt.Errorf("--http-authz-path-prefix: %w", err))
	}
	check(validAddress(c.adminAddr), "admin-addr", "it is host:port")
	check(validAddress(c.healthAddr), "health-addr", "it is host:port")
	check(len(c.enable) > 0, "enable", "it is authz, admin or authz,admin")
	for _, e := range c.enable {
		check(command.OneOf(e, "authz", "admin"), "enable", "it is authz, admin or authz,admin")
	}
	check(!c.enabled("admin") || c.allowUnauthenticatedAdmin || loopback(c.adminAddr), "admin-addr",
		"the admin API asks nobody who he is, so it listens on a loopback address; "+
			"behind a proxy that does ask, add --allow-unauthenticated-admin")
	c.preview.check(check)
	check(c.bodyMemory > 0, "body-memory", "it is a number of bytes above zero, such as 67108864")
	check(c.decisionMemory >= 0, "decision-memory", "it is a number of decisions, such as 65536, or 0")
	c.decisionLog.Check(c.previewConsole, check)
	c.external.check(check)
	c.reservations.check(c.enabled("authz"), check)
	if len(errs) > 0 {
		return command.Usage(errors.Join(errs...))
	}
	return nil
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
	return c.Config.FillIn()
}

func (c *config) enabled(what string) bool { return slices.Contains(c.enable, what) }

// memory returns the number of decisions that a policy remembers, as authz has it.
func (c *config) memory() int {
	if c.decisionMemory == 0 {
		return -1
	}
	return c.decisionMemory
}

func (c *config) verdict() authz.Verdict {
	if c.defaultDecision == "allow" {
		return authz.Allow
	}
	return authz.Deny
}

func (c *config) level() slog.Level {
	var l slog.Level
	if err := l.UnmarshalText([]byte(c.logLevel)); err != nil {
		return slog.LevelInfo
	}
	return l
}

// serveFlags orders the flags of serve by what one wants to set.
var serveFlags = []command.FlagGroup{
	{Title: "What it follows, and who it is", Names: []string{"store", "location", "policy", "node", "enable", "snapshot-file"}},
	{Title: "Where it listens", Names: []string{
		"authz-addr", "authz-socket-mode", "http-authz-addr", "http-authz-path-prefix",
		"admin-addr", "admin-host", "allow-unauthenticated-admin", "health-addr",
	}},
	{Title: "Decisions", Names: []string{"default-decision", "decision-timeout", "fail-with-error", "decision-id-header", "observe", "grpc-descriptor-set", "body-memory", "decision-memory"}},
	{Title: "What the admin API takes", Names: []string{"require-passing-tests", "max-policy-size", "policyfile-revision-ids"}},
	{Title: "Previews", Names: []string{"preview-console", "preview-*"}},
	{Title: "Decision log", Names: []string{"decision-log", "decision-log-*"}},
	{Title: "External services that policies name", Names: []string{"external-*"}},
	{Title: "Reservations of OpenStack Blazar", Names: []string{"reservation-policy", "reservation-addr", "reservation-*"}},
	{Title: "TLS", Names: []string{"authz-tls-*", "http-authz-tls-*", "admin-tls-*", "tls-*"}},
	{Title: "Connections and shutdown", Names: []string{"authz-*", "drain-delay", "shutdown-timeout"}},
	{Title: "This program", Names: []string{"log-level", "log-format", "help"}},
}
