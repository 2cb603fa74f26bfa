package telemetry

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// variable is a variable of the environment that the OpenTelemetry SDK reads.
type variable struct {
	name string
	// rule completes "NAME: " in an error. It quotes no value.
	rule string
	// valid is nil if every value is valid, or if the error of a wrong one does not quote it.
	valid func(value string) bool
	// required is set if a malformed value ends the start; otherwise the value is ignored.
	// It is set for what may contain a secret, and without which the SDK would export
	// to somewhere else, or without credentials.
	required bool
}

// malformed reports whether the variable is set and breaks its rule.
func (v variable) malformed() bool {
	value := os.Getenv(v.name)
	return value != "" && v.valid != nil && !v.valid(value)
}

// error names the variable and its rule. The value may be a secret, so it is left out.
func (v variable) error() error { return errors.New(v.name + ": " + v.rule) }

// CheckEnvironment returns an error for each malformed variable that would be dangerous to
// ignore. The SDK prints the values of malformed variables, so it must never see one: it is
// started only if there is no error, and New removes the other malformed ones.
func CheckEnvironment() (errs []error) {
	for _, v := range variables {
		if v.required && v.malformed() {
			errs = append(errs, v.error())
		}
	}
	for _, prefix := range otlpPrefixes {
		certificate, key := prefix+"CLIENT_CERTIFICATE", prefix+"CLIENT_KEY"
		switch {
		case (os.Getenv(certificate) == "") != (os.Getenv(key) == ""):
			errs = append(errs, errors.New(certificate+": it comes with "+key))
		case os.Getenv(key) != "" && !isKeyPair(os.Getenv(certificate), os.Getenv(key)):
			errs = append(errs, errors.New(key+": it is a readable PEM file with the key of "+certificate+", which is one too"))
		}
	}
	return errs
}

// removeMalformed unsets the other malformed variables, so that their defaults hold.
func removeMalformed(log *slog.Logger) error {
	for _, v := range variables {
		if !v.malformed() {
			continue
		}
		if err := os.Unsetenv(v.name); err != nil {
			return err
		}
		log.Warn("a variable is malformed; it is ignored", "variable", v.name, "rule", v.rule)
	}
	return nil
}

// Variables returns the names of the variables of OpenTelemetry that the server supports.
func Variables() (names []string) {
	for _, v := range variables {
		names = append(names, v.name)
	}
	return names
}

// otlpPrefixes begin the variables of the exporters of OTLP: for all signals and for each.
var otlpPrefixes = []string{"OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_LOGS_", "OTEL_EXPORTER_OTLP_METRICS_", "OTEL_EXPORTER_OTLP_TRACES_"}

// variables are those that the SDK reads.
// https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
var variables = slices.Concat(
	otlpVariables(),
	[]variable{
		{"OTEL_RESOURCE_ATTRIBUTES", "it is a list such as deployment.environment.name=prod,team=shop: NAME=VALUE, separated by commas", isPairs, true},
		// The SDK takes each value of these and logs none; newPropagator checks the propagators.
		{name: "OTEL_SERVICE_NAME"}, {name: "OTEL_SDK_DISABLED"}, {name: "OTEL_METRICS_EXEMPLAR_FILTER"}, {name: observability},
		{name: "OTEL_PROPAGATORS"},
		usedBy(oneOf("OTEL_LOGS_EXPORTER", "otlp", "console", "none"), "LOGS"),
		usedBy(oneOf("OTEL_METRICS_EXPORTER", "otlp", "console", "prometheus", "none"), "METRICS"),
		usedBy(oneOf("OTEL_TRACES_EXPORTER", "otlp", "console", "none"), "TRACES"),
		usedBy(oneOf("OTEL_METRICS_PRODUCERS", "prometheus", "none", "prometheus,none"), "METRICS"),
		oneOf("OTEL_TRACES_SAMPLER", "always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio"),
		{"OTEL_TRACES_SAMPLER_ARG", "it is a ratio from 0 to 1", isRatio, false},
		oneOf("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "cumulative", "delta", "lowmemory"),
		oneOf("OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION", "explicit_bucket_histogram", "base2_exponential_bucket_histogram"),
	},
	numbers("it is a whole number, 1 or more (a time is in milliseconds)", isPositive,
		"OTEL_BLRP_MAX_QUEUE_SIZE", "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE", "OTEL_BLRP_SCHEDULE_DELAY", "OTEL_BLRP_EXPORT_TIMEOUT",
		"OTEL_METRIC_EXPORT_INTERVAL", "OTEL_METRIC_EXPORT_TIMEOUT"),
	numbers("it is a whole number (a time is in milliseconds)", isInteger,
		"OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "OTEL_BSP_SCHEDULE_DELAY", "OTEL_BSP_EXPORT_TIMEOUT",
		"OTEL_ATTRIBUTE_COUNT_LIMIT", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
		"OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_SPAN_EVENT_COUNT_LIMIT", "OTEL_SPAN_LINK_COUNT_LIMIT",
		"OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT",
		"OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT", "OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT"),
)

// otlpVariables returns the variables of the exporters of OTLP.
func otlpVariables() (all []variable) {
	for _, prefix := range otlpPrefixes {
		all = append(all,
			variable{prefix + "HEADERS", "it is a list such as api-key=VALUE,x-tenant=VALUE: NAME=VALUE, separated by commas, where a value is " +
				"percent-encoded and a name has only letters, digits and characters of !#$%&'*+-.^_`|~", isHeaderList, true},
			variable{prefix + "ENDPOINT", "it is a URL such as http://collector:4317; credentials go to " + prefix + "HEADERS", isEndpoint, true},
			variable{prefix + "CERTIFICATE", "it is a readable PEM file with certificates of authorities", isAuthorities, true},
			// CheckEnvironment checks these two as a pair.
			variable{name: prefix + "CLIENT_CERTIFICATE"}, variable{name: prefix + "CLIENT_KEY"},
			usedBy(oneOf(prefix+"PROTOCOL", "grpc", "http/protobuf"), signalsOf(prefix)...),
			variable{prefix + "TIMEOUT", "it is a whole number of milliseconds", isInteger, false},
			oneOf(prefix+"COMPRESSION", "gzip", "none"),
			oneOf(prefix+"INSECURE", "true", "false"),
		)
	}
	return all
}

// oneOf returns a variable that is one of some words, in any case.
func oneOf(name string, words ...string) variable {
	return variable{name, "it is one of " + strings.Join(words, ", "), func(value string) bool {
		return slices.Contains(words, strings.ToLower(strings.TrimSpace(value)))
	}, false}
}

// usedBy returns a variable whose rule counts only if one of some signals is exported, and then
// has to be kept: without it there is no exporter.
func usedBy(v variable, signals ...string) variable {
	kept := v.valid
	v.required, v.valid = true, func(value string) bool {
		return kept(value) || !slices.ContainsFunc(signals, configured)
	}
	return v
}

// signalsOf returns the signals whose exporters read the variables with a prefix.
func signalsOf(prefix string) []string {
	if prefix == otlpPrefixes[0] {
		return []string{"LOGS", "METRICS", "TRACES"}
	}
	return []string{strings.TrimSuffix(strings.TrimPrefix(prefix, otlpPrefixes[0]), "_")}
}

// numbers returns variables with one rule.
func numbers(rule string, valid func(string) bool, names ...string) (all []variable) {
	for _, name := range names {
		all = append(all, variable{name, rule, valid, false})
	}
	return all
}

// isInteger reports whether the SDK takes a value as a number.
func isInteger(value string) bool {
	_, err := strconv.Atoi(strings.TrimSpace(value))
	return err == nil
}

// isPositive reports whether a value is a number of 1 or more.
func isPositive(value string) bool {
	n, err := strconv.Atoi(value)
	return err == nil && n > 0
}

// isRatio reports whether a value is from 0 to 1.
func isRatio(value string) bool {
	n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	return err == nil && n >= 0 && n <= 1
}

// isPairs reports whether a value is a list of NAME=VALUE.
func isPairs(value string) bool {
	for pair := range strings.SplitSeq(strings.TrimSpace(value), ",") {
		if !strings.Contains(pair, "=") {
			return false
		}
	}
	return true
}

// isHeaderList reports whether all exporters of the SDK can parse a list of headers, and send
// them: no header may have a control character, such as a line break, in its value.
func isHeaderList(list string) bool {
	for pair := range strings.SplitSeq(list, ",") {
		name, encoded, found := strings.Cut(pair, "=")
		value, err := url.PathUnescape(encoded)
		if !found || err != nil || !isHeaderName(strings.TrimSpace(name)) || strings.ContainsFunc(strings.TrimSpace(value), unicode.IsControl) {
			return false
		}
	}
	return true
}

// isHeaderName reports whether a name is a token of RFC 9110.
func isHeaderName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(c rune) bool {
		return c > unicode.MaxASCII || !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
}

// isEndpoint reports whether a value is a URL that names a collector.
//
// The exporters leave user information out only of http and https, and connect to an
// address of another form as it is: there it would be in error messages and labels of metrics.
func isEndpoint(value string) bool {
	u, err := url.Parse(value)
	switch {
	case err != nil || u.Scheme == "":
		return false
	case strings.EqualFold(u.Scheme, "http"), strings.EqualFold(u.Scheme, "https"):
		return u.Host != ""
	}
	return !strings.Contains(value, "@")
}

// isAuthorities reports whether a value names a readable PEM file with a certificate.
func isAuthorities(file string) bool {
	content, err := os.ReadFile(strings.TrimSpace(file))
	return err == nil && x509.NewCertPool().AppendCertsFromPEM(content)
}

// isKeyPair reports whether two values name the files of a certificate and of its key.
func isKeyPair(certificate, key string) bool {
	_, err := tls.LoadX509KeyPair(strings.TrimSpace(certificate), strings.TrimSpace(key))
	return err == nil
}

// otlpVariable returns what the environment says of OTLP: for logs, or else for all signals.
func otlpVariable(name string) string {
	return cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_LOGS_"+name), os.Getenv("OTEL_EXPORTER_OTLP_"+name))
}
