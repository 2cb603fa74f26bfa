package main

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	sdklog "go.opentelemetry.io/otel/sdk/log"

	"understudy/admin"
	"understudy/authz"
	"understudy/authz/extauthz"
)

// envPrefix begins the environment variable of each flag of serve: --store is
// UNDERSTUDY_STORE. A flag wins over its variable.
const envPrefix = "UNDERSTUDY_"

// config is what `serve` can be told. It is read from flags and environment here
// and nowhere else, and passed by value.
type config struct {
	authzAddr  string
	adminAddr  string
	healthAddr string

	httpAuthzAddr       string
	httpAuthzPathPrefix string

	store    string
	location string
	policy   string
	node     string
	enable   []string

	defaultDecision  string
	decisionTimeout  time.Duration
	failWithError    string
	decisionIDHeader string
	observe          bool
	descriptorSet    string
	snapshotFile     string
	previewConsole   bool
	preview          previewConfig
	decisionMemory   int
	bodyMemory       int64
	decisionLog      decisionLogConfig
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
	authzTLS        tlsFiles
	httpAuthzTLS    tlsFiles
	adminTLS        tlsFiles
	tlsMinVersion   string
	tlsReload       time.Duration
	connections     connections
}

// bind declares the flags.
func (c *config) bind(f *pflag.FlagSet) {
	f.StringVar(&c.authzAddr, "authz-addr", "127.0.0.1:9191", "where Envoy asks: host:port (:0 for any port) or unix:///path")
	f.StringVar(&c.httpAuthzAddr, "http-authz-addr", "", "where proxies ask over HTTP, Envoy's HTTP service and forward authentication: host:port or unix:///path (default not at all)")
	f.StringVar(&c.httpAuthzPathPrefix, "http-authz-path-prefix", "/envoy", "the path_prefix of Envoy's HTTP service; / if it has none, which turns forward authentication off")
	f.StringVar(&c.adminAddr, "admin-addr", "127.0.0.1:8181", "where the admin API listens, REST and gRPC: host:port")
	f.StringVar(&c.healthAddr, "health-addr", "127.0.0.1:8282", "where /healthz, /readyz and /metrics are: host:port")
	c.bindStore(f)
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
	c.decisionLog.bind(f)
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

// bindStore declares the flags that say what is followed, and what is kept of it.
func (c *config) bindStore(f *pflag.FlagSet) {
	f.StringVar(&c.store, "store", "", "bolt:///path, redis://host:port, rediss://, redis+cluster:// or redis+sentinel:// (default a file in the user's state directory)")
	f.StringVar(&c.location, "location", "projects/default/locations/local", "the set of sidecars that this one belongs to")
	f.StringVar(&c.policy, "policy", "default", "the ID of the policy that decides where a route names none")
	f.StringVar(&c.snapshotFile, "snapshot-file", "", "where the last policies are kept, for a start without the store and for the command restore (default a file beside a bolt store, and one for each Redis in the user's state directory)")
}

// bindListening declares the flags of sockets, TLS and connections.
func (c *config) bindListening(f *pflag.FlagSet) {
	f.StringVar(&c.authzSocketMode, "authz-socket-mode", "0660", "who may connect to a unix socket, as octal permissions")
	f.StringVar(&c.authzTLS.cert, "authz-tls-cert", "", "a PEM file with the certificate chain of the ext_authz port; it is read again when it changes")
	f.StringVar(&c.authzTLS.key, "authz-tls-key", "", "a PEM file with its key")
	f.StringVar(&c.authzTLS.clientCA, "authz-tls-client-ca", "", "a PEM file with the authorities one of which has to have signed Envoy's certificate (mTLS)")
	f.StringVar(&c.httpAuthzTLS.cert, "http-authz-tls-cert", "", "a PEM file with the certificate chain of the port for questions over HTTP; it is read again when it changes")
	f.StringVar(&c.httpAuthzTLS.key, "http-authz-tls-key", "", "a PEM file with its key")
	f.StringVar(&c.httpAuthzTLS.clientCA, "http-authz-tls-client-ca", "", "a PEM file with the authorities one of which has to have signed the proxy's certificate (mTLS)")
	f.StringVar(&c.adminTLS.cert, "admin-tls-cert", "", "a PEM file with the certificate chain of the admin API; it is read again when it changes")
	f.StringVar(&c.adminTLS.key, "admin-tls-key", "", "a PEM file with its key")
	f.StringVar(&c.tlsMinVersion, "tls-min-version", "1.2", "the oldest TLS that is spoken: 1.2, which Envoy asks by unless told otherwise, or 1.3")
	f.DurationVar(&c.tlsReload, "tls-reload-interval", 5*time.Second, "how often files of certificates and tokens are looked at")
	c.connections.bind(f)
	f.StringVar(&c.descriptorSet, "grpc-descriptor-set", "", "a file by which policies see the bodies of gRPC requests, as protoc --include_imports --descriptor_set_out=FILE or buf build -o FILE makes it")
}

// fromEnvironment sets the flags that were not given from their variables.
func fromEnvironment(f *pflag.FlagSet) error {
	var errs []error
	f.VisitAll(func(flag *pflag.Flag) {
		name := envPrefix + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
		value, set := os.LookupEnv(name)
		if flag.Changed || !set {
			return
		}
		if err := f.Set(flag.Name, value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	})
	return errors.Join(errs...)
}

// ofService matches the variables that Kubernetes sets for a Service, in each
// container beside it.
var ofService = regexp.MustCompile(`_(PORT|SERVICE_HOST|SERVICE_PORT)(_|$)`)

// strayVariables are those that begin as the variables of flags do and are no flag's,
// nor read by a command: probably misspelt.
func strayVariables(f *pflag.FlagSet) []string {
	known := map[string]bool{"CA_CERT": true, "CLIENT_CERT": true, "CLIENT_KEY": true}
	f.VisitAll(func(flag *pflag.Flag) {
		known[strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))] = true
	})
	var stray []string
	for _, variable := range os.Environ() {
		full, _, _ := strings.Cut(variable, "=")
		name, ours := strings.CutPrefix(full, envPrefix)
		if ours && !known[name] && !ofService.MatchString("_"+name) {
			stray = append(stray, full)
		}
	}
	return stray
}

var (
	locationName = regexp.MustCompile(`^projects/[a-z]([a-z0-9-]{0,61}[a-z0-9])?/locations/[A-Za-z0-9_.:-]{1,255}$`)
	idPattern    = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,255}$`)
)

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
	check(locationName.MatchString(c.location), "location", "it is like projects/default/locations/local")
	check(!strings.HasSuffix(c.location, "/locations/global"), "location", "global is reserved: Policyfile locks are kept there")
	check(idPattern.MatchString(c.policy), "policy", "an ID has letters, digits and characters of _.:-")
	check(idPattern.MatchString(c.node), "node", "an ID has letters, digits and characters of _.:-")
	check(oneOf(c.defaultDecision, "deny", "allow"), "default-decision", "it is deny or allow")
	check(oneOf(c.logFormat, "text", "json"), "log-format", "it is text or json")
	check(oneOf(c.logLevel, "debug", "info", "warn", "error"), "log-level", "it is debug, info, warn or error")
	check(oneOf(c.policyfileRevisionIDs, "verify", "trust"), "policyfile-revision-ids", "it is verify or trust")
	check(oneOf(c.failWithError, failNot, failError, failResponse), "fail-with-error", "it is true, false or response")
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
	check(validAddress(c.authzAddr) || strings.HasPrefix(c.authzAddr, unixScheme), "authz-addr", "it is host:port or unix:///path")
	check(c.httpAuthzAddr == "" || validAddress(c.httpAuthzAddr) || strings.HasPrefix(c.httpAuthzAddr, unixScheme),
		"http-authz-addr", "it is host:port or unix:///path")
	if err := c.httpAuthz().Validate(); err != nil {
		errs = append(errs, fmt.Errorf("--http-authz-path-prefix: %w", err))
	}
	check(validAddress(c.adminAddr), "admin-addr", "it is host:port")
	check(validAddress(c.healthAddr), "health-addr", "it is host:port")
	check(len(c.enable) > 0, "enable", "it is authz, admin or authz,admin")
	for _, e := range c.enable {
		check(oneOf(e, "authz", "admin"), "enable", "it is authz, admin or authz,admin")
	}
	check(!c.enabled("admin") || c.allowUnauthenticatedAdmin || loopback(c.adminAddr), "admin-addr",
		"the admin API asks nobody who he is, so it listens on a loopback address; "+
			"behind a proxy that does ask, add --allow-unauthenticated-admin")
	c.preview.check(check)
	check(c.bodyMemory > 0, "body-memory", "it is a number of bytes above zero, such as 67108864")
	check(c.decisionMemory >= 0, "decision-memory", "it is a number of decisions, such as 65536, or 0")
	c.decisionLog.check(c.previewConsole, check)
	c.external.check(check)
	c.reservations.check(c.enabled("authz"), check)
	if len(errs) > 0 {
		return usage(errors.Join(errs...))
	}
	return nil
}

// validateListening calls check with each rule and whether it is kept.
func (c *config) validateListening(check func(ok bool, flag, rule string)) {
	_, err := parseMode(c.authzSocketMode)
	check(err == nil, "authz-socket-mode", "it is octal permissions such as 0660")
	check(c.authzTLS.complete(), "authz-tls-cert", "it comes with --authz-tls-key, and --authz-tls-client-ca with both")
	check(c.httpAuthzTLS.complete(), "http-authz-tls-cert", "it comes with --http-authz-tls-key, and --http-authz-tls-client-ca with both")
	check(c.adminTLS.complete(), "admin-tls-cert", "it comes with --admin-tls-key")
	check(oneOf(c.tlsMinVersion, "1.2", "1.3"), "tls-min-version", "it is 1.2 or 1.3")
	check(c.tlsReload > 0, "tls-reload-interval", "it is a duration above zero, such as 5s")
	c.connections.validate(check)
}

// parseMode reads the permissions of a socket.
func parseMode(octal string) (os.FileMode, error) {
	mode, err := strconv.ParseUint(octal, 8, 9)
	return os.FileMode(mode), err
}

// minimumTLS is the version of crypto/tls. Without a value it is 1.2.
func (c *config) minimumTLS() uint16 {
	if c.tlsMinVersion == "1.3" {
		return tls.VersionTLS13
	}
	return tls.VersionTLS12
}

// fillIn sets the defaults that depend on the machine.
func (c *config) fillIn() error {
	if c.node == "" {
		host, err := os.Hostname()
		if err != nil || !idPattern.MatchString(host) {
			host = "node"
		}
		c.node = host + "-" + uuid.NewString()[:8]
	}
	if c.store == "" {
		dir, err := stateDir()
		if err != nil {
			return usage(fmt.Errorf("--store: %w; name a file with bolt:///path", err))
		}
		c.store = "bolt://" + filepath.Join(dir, "understudy.db")
	}
	if c.snapshotFile == "" {
		c.snapshotFile = c.defaultSnapshotFile()
	}
	return nil
}

// defaultSnapshotFile is a file of its own for each store, location and policy: what was
// saved of another store is not what this one has lost. It is empty if there is no
// folder for it.
func (c *config) defaultSnapshotFile() string {
	name := strings.ReplaceAll(c.location, "/", "_") + "." + c.policy
	if path, ok := strings.CutPrefix(c.store, boltScheme); ok {
		return path + "." + name + ".snapshot"
	}
	dir, err := stateDir()
	if err != nil {
		return ""
	}
	of := sha256.Sum256([]byte(redacted(c.store)))
	return filepath.Join(dir, "snapshots", name+"."+hex.EncodeToString(of[:4]))
}

// stateDir is the folder for what a program keeps of its own accord (the XDG base
// directories).
func stateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "understudy"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("there is no home directory to keep the state in")
	}
	return filepath.Join(home, ".local", "state", "understudy"), nil
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

// restHosts are the names by which the admin API may be asked; nil is any. Pages in a
// browser of this machine can reach a loopback address; what is before another one
// asks who comes.
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

func oneOf(value string, allowed ...string) bool { return slices.Contains(allowed, value) }

func validAddress(addr string) bool {
	_, port, err := net.SplitHostPort(addr)
	return err == nil && port != ""
}

// loopback reports whether an address can be reached from this machine alone.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// redacted is a store's URL without what may be secret in it.
func redacted(store string) string {
	u, err := url.Parse(store)
	if err != nil {
		return "(not a URL)"
	}
	u.User, u.RawQuery = nil, ""
	return u.String()
}

// newServe is the command; what it does stands in serve.go.
func newServe() *cobra.Command {
	var c config
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the sidecar that Envoy asks, and the admin API",
		Long: `Run the sidecar that Envoy asks over ext_authz gRPC, and the admin API.

Without flags everything is on this machine: policies are kept in a file of the
user's state directory, and all ports listen on the loopback address. With
--store redis://… any number of sidecars share their policies.

Each flag is also an environment variable: --store is UNDERSTUDY_STORE. A flag
wins over its variable. Preview records, metrics and traces are exported as the
standard OTEL_* variables say; without them nothing is exported.

GOGC is 400 unless the environment sets it; in a container, set GOMEMLIMIT to
about nine tenths of its memory limit.

It stops on SIGTERM or SIGINT: readiness goes first, then, after --drain-delay,
the ports close and requests under way are answered. A second signal ends it at once.`,
		Example: `  understudy serve
  understudy serve --store redis://localhost:6379 --location projects/shop/locations/prod --policy web
  UNDERSTUDY_LOG_FORMAT=json understudy serve --preview-console`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := fromEnvironment(cmd.Flags()); err != nil {
				return usage(err)
			}
			if err := c.finish(); err != nil {
				return err
			}
			var console sdklog.Exporter
			if c.previewConsole {
				console = newConsole(cmd.OutOrStdout())
			}
			c.decisionLog.out = cmd.OutOrStdout()
			logger := newLogger(c, cmd.ErrOrStderr())
			for _, name := range strayVariables(cmd.Flags()) {
				logger.Warn("no flag has this variable; it is ignored", "variable", name)
			}
			tuneGC(logger)
			return serve(cmd.Context(), c, console, cmd.ErrOrStderr(), nil)
		},
	}
	c.bind(cmd.Flags())
	cmd.SetUsageFunc(groupedUsage(serveFlags))
	return cmd
}

// noArguments refuses arguments with the exit code of a usage error.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage(fmt.Errorf("%q is one argument too many (see `%s --help`)", args[0], cmd.CommandPath()))
	}
	return nil
}
