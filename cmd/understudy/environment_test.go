package main

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/telemetry"
)

// canary stands for a secret in the value of a variable. The start of a server prints it nowhere.
const canary = "cAnArY7c1f"

// environmentRow is a value of a variable of the environment.
type environmentRow struct {
	name string
	// malformed is a value that ends the start; empty if there is none.
	malformed string
	// ignored is a malformed value that does not end it: a warning names the variable.
	ignored string
	// secret is a well-formed value with a secret; empty if a well-formed value is none.
	secret string
	// with are other variables that the row needs, as NAME=VALUE.
	with []string
	// command is what reads the variable; nil is serve.
	command []string
}

// notOfTheBinary are variables in documents that no command reads.
var notOfTheBinary = map[string]bool{
	"UNDERSTUDY_IMAGE": true, // of the examples for pull requests
}

// environmentRows is every documented variable: those of flags, of commands and of OpenTelemetry.
func environmentRows() []environmentRow {
	return slices.Concat(serveRows, clientRows(), otlpRows(), openTelemetryRows)
}

// The other halves of rows.
const (
	away      = "UNDERSTUDY_STORE=redis://127.0.0.1:1"
	awayTLS   = "UNDERSTUDY_STORE=rediss://127.0.0.1:1"
	inFront   = "UNDERSTUDY_ADMIN_TLS_IN_FRONT=true"
	blazar    = "UNDERSTUDY_RESERVATION_POLICY=blazar"
	collects  = "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1"
	nowhere   = "https://127.0.0.1:1"
	adminAddr = "UNDERSTUDY_ADMIN_ADDR="
)

// serveRows are variables of flags of serve that have a text. The rows of the others are made of
// their types by flagRows.
var serveRows = []environmentRow{
	{name: "UNDERSTUDY_STORE", malformed: "redis://user:" + canary + "@host:port/0", secret: "redis://user:" + canary + "@127.0.0.1:1/0"},
	{name: "UNDERSTUDY_STORE", malformed: canary + "://user@host"},
	{name: "UNDERSTUDY_STORE", malformed: "redis://user:%zz" + canary + "@host"},
	{name: "UNDERSTUDY_STORE", malformed: "redis+sentinel://user:" + canary + "@host"},
	{name: "UNDERSTUDY_STORE", malformed: "redis+cluster://user:" + canary + "@host?no_such_option=1"},
	{name: "UNDERSTUDY_STORE_PASSWORD_FILE", malformed: canary, with: []string{away}},
	{name: "UNDERSTUDY_STORE_PASSWORD_FILE", malformed: "/" + canary + `\"+=`, with: []string{away}},
	{name: "UNDERSTUDY_STORE_PASSWORD_FILE", malformed: "any", with: []string{"UNDERSTUDY_STORE=redis://user:" + canary + "@127.0.0.1:1"}},
	{name: "UNDERSTUDY_STORE_CA_FILE", malformed: canary, with: []string{awayTLS}},
	{name: "UNDERSTUDY_STORE_CA_FILE", malformed: canary, with: []string{away}},
	{name: "UNDERSTUDY_STORE_CERT_FILE", malformed: canary, with: []string{awayTLS, "UNDERSTUDY_STORE_KEY_FILE=key"}},
	{name: "UNDERSTUDY_STORE_CERT_FILE", malformed: canary, with: []string{awayTLS}},
	{name: "UNDERSTUDY_STORE_KEY_FILE", malformed: canary, with: []string{awayTLS, "UNDERSTUDY_STORE_CERT_FILE=main.go"}},
	{name: "UNDERSTUDY_STORE_KEY_FILE", malformed: "-----BEGIN PRIVATE KEY-----\n" + canary, with: []string{awayTLS, "UNDERSTUDY_STORE_CERT_FILE=main.go"}},
	{name: "UNDERSTUDY_LOCATION", malformed: canary},
	{name: "UNDERSTUDY_POLICY", malformed: canary + "/"},
	{name: "UNDERSTUDY_POLICIES", malformed: canary + "/"},
	{name: "UNDERSTUDY_NODE", malformed: canary + "/"},
	{name: "UNDERSTUDY_ENABLE", malformed: canary},
	{name: "UNDERSTUDY_SNAPSHOT_FILE"}, // each value is the name of a file
	{name: "UNDERSTUDY_AUTHZ_ADDR", malformed: canary},
	{name: "UNDERSTUDY_AUTHZ_SOCKET_MODE", malformed: canary},
	{name: "UNDERSTUDY_HTTP_AUTHZ_ADDR", malformed: canary},
	{name: "UNDERSTUDY_HTTP_AUTHZ_PATH_PREFIX", malformed: canary},
	{name: "UNDERSTUDY_ADMIN_ADDR", malformed: canary},
	{name: "UNDERSTUDY_ADMIN_HOST", malformed: canary + `"`},
	{name: "UNDERSTUDY_HEALTH_ADDR", malformed: canary},
	{name: "UNDERSTUDY_DEFAULT_DECISION", malformed: canary},
	{name: "UNDERSTUDY_FAIL_WITH_ERROR", malformed: canary},
	{name: "UNDERSTUDY_DECISION_ID_HEADER", malformed: canary + ":"},
	{name: "UNDERSTUDY_GRPC_DESCRIPTOR_SET"}, // the name of a file without secrets
	{name: "UNDERSTUDY_DUPLICATE_KEYS", malformed: canary},
	{name: "UNDERSTUDY_TOKEN_PAYLOAD"}, // any text is the key of a payload
	{name: "UNDERSTUDY_ADMIN_OWNER", malformed: canary, with: []string{"UNDERSTUDY_ADMIN_TLS_CLIENT_CA=ca", inFront}},
	{name: "UNDERSTUDY_ADMIN_REVOKED_FILE"}, // the name of a file without secrets
	{name: "UNDERSTUDY_ADMIN_TOKEN_FILE", malformed: canary, with: []string{inFront}},
	{name: "UNDERSTUDY_ADMIN_TOKEN_FILE", malformed: "a," + canary, with: []string{inFront}},
	{name: "UNDERSTUDY_ADMIN_OIDC_ISSUER", malformed: canary},
	{name: "UNDERSTUDY_ADMIN_OIDC_ISSUER", malformed: "https://user:" + canary + "@issuer,audience=a"},
	{name: "UNDERSTUDY_ADMIN_OIDC_ISSUER", malformed: "https://" + canary + "@issuer,audience=a"},
	{name: "UNDERSTUDY_ADMIN_OIDC_ISSUER", malformed: "https://issuer?token=" + canary},
	{name: "UNDERSTUDY_ADMIN_OIDC_ISSUER", malformed: "https://a,client-id=b,client-secret-file=" + canary, with: []string{inFront}},
	{name: "UNDERSTUDY_ADMIN_OIDC_ISSUER", malformed: "https://a,audience=b,token-file=" + canary, with: []string{inFront}},
	{name: "UNDERSTUDY_ADMIN_URL", malformed: "https://user:" + canary + "@host/path"},
	{name: "UNDERSTUDY_CHEF_KEY", malformed: canary},
	{name: "UNDERSTUDY_CHEF_KEY", malformed: "=" + canary},
	{name: "UNDERSTUDY_POLICYFILE_REVISION_IDS", malformed: canary},
	{name: "UNDERSTUDY_PREVIEW_LOG", malformed: canary},
	{name: "UNDERSTUDY_DECISION_LOG", malformed: canary},
	{name: "UNDERSTUDY_DECISION_LOG_SHOW"}, // each value is the name of a header
	{name: "UNDERSTUDY_DECISION_LOG_LABEL", malformed: canary},
	{name: "UNDERSTUDY_AUDIT", malformed: canary},
	{name: "UNDERSTUDY_EXTERNAL_TOKEN_FILE", malformed: canary},
	{name: "UNDERSTUDY_EXTERNAL_TOKEN_FILE", malformed: "host=" + canary},
	{name: "UNDERSTUDY_EXTERNAL_ALLOW", malformed: "user:" + canary + "@host"},
	{name: "UNDERSTUDY_RESERVATION_POLICY", malformed: canary + "/"},
	{name: "UNDERSTUDY_RESERVATION_ADDR", malformed: canary, with: []string{blazar}},
	{name: "UNDERSTUDY_RESERVATION_BASE_PATH", malformed: canary, with: []string{blazar}},
	{name: "UNDERSTUDY_RESERVATION_TOKEN_FILE", malformed: canary, with: []string{blazar}},
	{name: "UNDERSTUDY_AUTHZ_TLS_CERT", malformed: canary, with: []string{"UNDERSTUDY_AUTHZ_TLS_KEY=key"}},
	{name: "UNDERSTUDY_AUTHZ_TLS_KEY", malformed: canary, with: []string{"UNDERSTUDY_AUTHZ_TLS_CERT=main.go"}},
	{name: "UNDERSTUDY_AUTHZ_TLS_CLIENT_CA", malformed: canary},
	{name: "UNDERSTUDY_HTTP_AUTHZ_TLS_CERT", malformed: canary, with: []string{"UNDERSTUDY_HTTP_AUTHZ_ADDR=127.0.0.1:0", "UNDERSTUDY_HTTP_AUTHZ_TLS_KEY=key"}},
	{name: "UNDERSTUDY_HTTP_AUTHZ_TLS_KEY", malformed: canary, with: []string{"UNDERSTUDY_HTTP_AUTHZ_ADDR=127.0.0.1:0", "UNDERSTUDY_HTTP_AUTHZ_TLS_CERT=main.go"}},
	{name: "UNDERSTUDY_HTTP_AUTHZ_TLS_CLIENT_CA", malformed: canary},
	{name: "UNDERSTUDY_ADMIN_TLS_CERT", malformed: canary, with: []string{"UNDERSTUDY_ADMIN_TLS_KEY=key"}},
	{name: "UNDERSTUDY_ADMIN_TLS_KEY", malformed: canary, with: []string{"UNDERSTUDY_ADMIN_TLS_CERT=main.go"}},
	{name: "UNDERSTUDY_ADMIN_TLS_CLIENT_CA", malformed: canary},
	{name: "UNDERSTUDY_RESERVATION_TLS_CERT", malformed: canary, with: []string{blazar, "UNDERSTUDY_RESERVATION_TLS_KEY=key"}},
	{name: "UNDERSTUDY_RESERVATION_TLS_KEY", malformed: canary, with: []string{blazar, "UNDERSTUDY_RESERVATION_TLS_CERT=main.go"}},
	{name: "UNDERSTUDY_RESERVATION_TLS_CLIENT_CA", malformed: canary, with: []string{blazar}},
	{name: "UNDERSTUDY_TLS_MIN_VERSION", malformed: canary},
	{name: "UNDERSTUDY_LOG_FORMAT", malformed: canary},
	{name: "UNDERSTUDY_LOG_LEVEL", malformed: canary},
}

// flagRows returns the rows of the flags whose type has a form.
func flagRows() (rows []environmentRow) {
	newServe().Flags().VisitAll(func(f *pflag.Flag) {
		switch f.Value.Type() {
		case "string", "stringSlice", "stringArray", "stringToString":
		default:
			rows = append(rows, environmentRow{name: variableOf(f.Name), malformed: canary})
		}
	})
	return rows
}

// variableOf returns the variable of a flag.
func variableOf(flag string) string {
	return "UNDERSTUDY_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// clientRows are variables of the other commands.
func clientRows() []environmentRow {
	get := []string{"get"}
	return []environmentRow{
		{name: "UNDERSTUDY_ADMIN_ADDR", malformed: "https://user:" + canary + "@127.0.0.1:1", command: get},
		{name: "UNDERSTUDY_CA_CERT", malformed: canary, command: get, with: []string{adminAddr + nowhere}},
		{name: "UNDERSTUDY_CLIENT_CERT", malformed: canary, command: get, with: []string{adminAddr + nowhere, "UNDERSTUDY_CLIENT_KEY=key"}},
		{name: "UNDERSTUDY_CLIENT_KEY", malformed: canary, command: get, with: []string{adminAddr + nowhere, "UNDERSTUDY_CLIENT_CERT=main.go"}},
		{name: "UNDERSTUDY_TOKEN", malformed: canary + " of ann", command: get, with: []string{adminAddr + nowhere}},
		{name: "UNDERSTUDY_TOKEN", malformed: canary, command: get, with: []string{adminAddr + nowhere}},
		{name: "UNDERSTUDY_TOKEN_FILE", malformed: canary, command: get, with: []string{adminAddr + nowhere}},
		{name: "UNDERSTUDY_AUTHZ_ADDR", malformed: "https://user:" + canary + "@127.0.0.1:1", command: []string{"check", "--timeout", "1s"}},
		{name: "UNDERSTUDY_HEALTH_ADDR", malformed: "http://user:" + canary + "@127.0.0.1:1", command: []string{"health"}},
		{name: "UNDERSTUDY_ISSUER", malformed: "https://user:" + canary + "@127.0.0.1:1", command: []string{"login"}, with: []string{adminAddr + nowhere, "UNDERSTUDY_CLIENT_ID=c"}},
		{name: "UNDERSTUDY_CLIENT_ID"}, // a public name
	}
}

// otlpRows are the variables of the exporters of OTLP.
func otlpRows() (rows []environmentRow) {
	for _, signal := range []string{"", "LOGS_", "METRICS_", "TRACES_"} {
		prefix := "OTEL_EXPORTER_OTLP_" + signal
		for _, headers := range []string{
			canary, "authorization: Bearer " + canary, "api-key=a," + canary, "api key=" + canary, "=" + canary,
			"authorization=%zz" + canary, "api-key=" + canary + "%0Aa=b", "é=" + canary, "api-key=" + canary + ",",
		} {
			rows = append(rows, environmentRow{name: prefix + "HEADERS", malformed: headers})
		}
		for _, endpoint := range []string{
			canary, "127.0.0.1:" + canary, "http://user:" + canary + "%zz@127.0.0.1:1", "http://user:" + canary + "@127.0.0.1:port",
			"user:" + canary + "@127.0.0.1:1", "http:user:" + canary + "@127.0.0.1:1", "http:///user:" + canary + "@127.0.0.1:1",
			"otlp://user:" + canary + "@127.0.0.1:1", " http://user:" + canary + "@127.0.0.1:1",
		} {
			rows = append(rows, environmentRow{name: prefix + "ENDPOINT", malformed: endpoint})
		}
		rows = append(rows,
			environmentRow{name: prefix + "HEADERS", malformed: canary, command: []string{"demo"}},
			environmentRow{name: prefix + "HEADERS", secret: "authorization=Bearer%20" + canary},
			environmentRow{name: prefix + "ENDPOINT", secret: "http://user:" + canary + "@ADDRESS/" + strings.ToLower(signal) + canary},
			environmentRow{name: prefix + "CERTIFICATE", malformed: canary, with: []string{collects}},
			environmentRow{name: prefix + "CLIENT_CERTIFICATE", malformed: canary, with: []string{collects, prefix + "CLIENT_KEY=key"}},
			environmentRow{name: prefix + "CLIENT_CERTIFICATE", malformed: canary, with: []string{collects}},
			environmentRow{name: prefix + "CLIENT_KEY", malformed: canary, with: []string{collects, prefix + "CLIENT_CERTIFICATE=main.go"}},
			environmentRow{name: prefix + "CLIENT_KEY", malformed: "-----BEGIN PRIVATE KEY-----\n" + canary, with: []string{collects, prefix + "CLIENT_CERTIFICATE=main.go"}},
			environmentRow{name: prefix + "PROTOCOL", malformed: canary, with: []string{collects}},
			environmentRow{name: prefix + "TIMEOUT", ignored: canary},
			environmentRow{name: prefix + "COMPRESSION", ignored: canary},
			environmentRow{name: prefix + "INSECURE", ignored: canary},
		)
	}
	return rows
}

// openTelemetryRows are the other variables of OpenTelemetry.
var openTelemetryRows = []environmentRow{
	{name: "OTEL_RESOURCE_ATTRIBUTES", malformed: canary}, // well-formed ones are exported on purpose
	{name: "OTEL_RESOURCE_ATTRIBUTES", malformed: "team=shop," + canary},
	{name: "OTEL_SERVICE_NAME"}, // each value is exported on purpose
	{name: "OTEL_SDK_DISABLED", secret: canary},
	{name: "OTEL_PROPAGATORS", ignored: canary},
	{name: "OTEL_PROPAGATORS", ignored: "tracecontext," + canary},
	{name: "OTEL_METRICS_PRODUCERS", malformed: canary, with: []string{"OTEL_METRICS_EXPORTER=otlp"}},
	{name: "OTEL_LOGS_EXPORTER", malformed: canary},
	{name: "OTEL_METRICS_EXPORTER", malformed: canary},
	{name: "OTEL_TRACES_EXPORTER", malformed: canary},
	{name: "OTEL_METRICS_EXEMPLAR_FILTER", secret: canary},
	{name: "OTEL_GO_X_OBSERVABILITY", secret: canary},
	{name: "OTEL_TRACES_SAMPLER", ignored: canary},
	{name: "OTEL_TRACES_SAMPLER_ARG", ignored: canary},
	{name: "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", ignored: canary},
	{name: "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION", ignored: canary},
	{name: "OTEL_BLRP_MAX_QUEUE_SIZE", ignored: canary},
	{name: "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE", ignored: canary},
	{name: "OTEL_BLRP_SCHEDULE_DELAY", ignored: canary},
	{name: "OTEL_BLRP_EXPORT_TIMEOUT", ignored: canary},
	{name: "OTEL_METRIC_EXPORT_INTERVAL", ignored: canary},
	{name: "OTEL_METRIC_EXPORT_TIMEOUT", ignored: canary},
	{name: "OTEL_BSP_MAX_QUEUE_SIZE", ignored: canary},
	{name: "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", ignored: canary},
	{name: "OTEL_BSP_SCHEDULE_DELAY", ignored: canary},
	{name: "OTEL_BSP_EXPORT_TIMEOUT", ignored: canary},
	{name: "OTEL_ATTRIBUTE_COUNT_LIMIT", ignored: canary},
	{name: "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", ignored: canary},
	{name: "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", ignored: canary},
	{name: "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", ignored: canary},
	{name: "OTEL_SPAN_EVENT_COUNT_LIMIT", ignored: canary},
	{name: "OTEL_SPAN_LINK_COUNT_LIMIT", ignored: canary},
	{name: "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", ignored: canary},
	{name: "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT", ignored: canary},
	{name: "OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT", ignored: canary},
	{name: "OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT", ignored: canary},
}

// TestEveryVariableIsInTheTable holds the table against the flags, the code and the documents.
func TestEveryVariableIsInTheTable(t *testing.T) {
	t.Parallel()
	tested := map[string]bool{}
	for _, row := range slices.Concat(environmentRows(), flagRows()) {
		tested[row.name] = true
	}
	documented := maps.Clone(notOfTheBinary)
	for _, name := range telemetry.Variables() {
		documented[name] = true
	}
	newServe().Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			documented[variableOf(f.Name)] = true
		}
	})
	for _, text := range documentsAndCode(t) {
		for _, name := range regexp.MustCompile(`\b(?:UNDERSTUDY|OTEL)_[A-Z_]*[A-Z]\b`).FindAllString(text, -1) {
			documented[name] = true
		}
		for _, groups := range regexp.MustCompile(`\bEnvOr\("([A-Z_]+)"`).FindAllStringSubmatch(text, -1) {
			documented["UNDERSTUDY_"+groups[1]] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(documented)) {
		if !tested[name] && !notOfTheBinary[name] {
			t.Errorf("%s is documented, and environmentRows has no row for it: add one with a malformed value, or with the reason that there is none", name)
		}
	}
}

// documentsAndCode returns the documents and configuration files of the repository, and the code of
// this command.
func documentsAndCode(t *testing.T) (texts []string) {
	t.Helper()
	read := func(root string, suffixes ...string) {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !slices.Contains(suffixes, filepath.Ext(path)) || strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path)
			texts = append(texts, string(content))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	read("../..", ".md", ".yaml", ".yml", ".env", ".service")
	read(".", ".go")
	return texts
}

// TestMalformedVariableIsNotPrinted starts the commands with each malformed value.
func TestMalformedVariableIsNotPrinted(t *testing.T) {
	for _, row := range slices.Concat(environmentRows(), flagRows()) {
		if row.malformed == "" {
			continue
		}
		t.Run(row.name+"="+row.malformed, func(t *testing.T) {
			setUsualEnvironment(t)
			for _, variable := range append(row.with, row.name+"="+row.malformed) {
				name, value, _ := strings.Cut(variable, "=")
				t.Setenv(name, value)
			}
			arguments := row.command
			if arguments == nil {
				arguments = []string{"serve"}
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			starts := arguments[0] == "serve" || arguments[0] == "demo"
			if starts {
				cancel() // a server that starts in spite of the value ends at once
			}
			var printed strings.Builder
			code := run(ctx, arguments, strings.NewReader(""), &printed, &printed)
			if code == command.ExitOK || strings.Contains(printed.String(), canary) {
				t.Errorf("exit code %d:\n%s", code, printed.String())
			}
			flag := "--" + strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(row.name, "UNDERSTUDY_"), "_", "-"))
			if starts && !strings.Contains(printed.String(), row.name) && !strings.Contains(printed.String(), flag) {
				t.Errorf("neither %s nor %s is named:\n%s", row.name, flag, printed.String())
			}
		})
	}
}

// setUsualEnvironment makes a server of this test start alone on this machine.
func setUsualEnvironment(t *testing.T) {
	t.Helper()
	folder := t.TempDir()
	for name, value := range map[string]string{
		"UNDERSTUDY_STORE": "bolt://" + filepath.Join(folder, "store.db"), "UNDERSTUDY_SNAPSHOT_FILE": filepath.Join(folder, "snapshot"),
		"UNDERSTUDY_AUTHZ_ADDR": "127.0.0.1:0", "UNDERSTUDY_ADMIN_ADDR": "127.0.0.1:0", "UNDERSTUDY_HEALTH_ADDR": "127.0.0.1:0",
		"XDG_CONFIG_HOME": folder,
	} {
		t.Setenv(name, value)
	}
}
