package telemetry

import (
	"context"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"

	"understudy/cmd/understudy/command"
)

// secrets replaces the values of variables that may be secret by the names of the variables.
//
// Messages of the SDK, of net/http and of gRPC have parts of them: a collector that refuses a
// token may quote it, and an endpoint may have a token in its path.
type secrets struct{ *strings.Replacer }

// newSecrets reads the environment.
func newSecrets() secrets {
	all := make(command.Secrets)
	for _, prefix := range otlpPrefixes {
		all.Add(prefix+"HEADERS", headerSecrets(os.Getenv(prefix+"HEADERS"))...)
		all.Add(prefix+"ENDPOINT", urlSecrets(os.Getenv(prefix+"ENDPOINT"))...)
		for _, file := range []string{"CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"} {
			all.Add(prefix+file, os.Getenv(prefix+file))
		}
	}
	// The exporters of OTLP over HTTP go through the proxy that these name.
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		all.Add(name, urlSecrets(os.Getenv(name))...)
	}
	return secrets{all.Replacer()}
}

// headerSecrets returns a list of headers, and of each its value as it is written, as it is sent, and
// the words of it: of "Bearer TOKEN", a collector may quote the token alone.
func headerSecrets(list string) []string {
	parts := []string{list}
	for pair := range strings.SplitSeq(list, ",") {
		_, encoded, _ := strings.Cut(pair, "=")
		parts = append(parts, strings.TrimSpace(encoded))
		if value, err := url.PathUnescape(encoded); err == nil {
			parts = append(parts, strings.TrimSpace(value))
			parts = append(parts, strings.Fields(value)...)
		}
	}
	return slices.DeleteFunc(parts, func(part string) bool {
		return strings.EqualFold(part, "Bearer") || strings.EqualFold(part, "Basic")
	})
}

// urlSecrets returns what may be secret in a URL: all but its scheme and host, and the paths that
// OTLP has by default.
func urlSecrets(text string) []string {
	u, err := url.Parse(text)
	if err != nil {
		return []string{text}
	}
	parts := []string{u.RawQuery, u.Fragment}
	if u.User != nil {
		password, _ := u.User.Password()
		parts = append(parts, text, u.User.String(), u.User.Username(), password, url.QueryEscape(password))
	}
	path := strings.TrimSuffix(u.Path, "/")
	for _, signal := range []string{"/v1/logs", "/v1/metrics", "/v1/traces"} {
		path = strings.TrimSuffix(path, signal)
	}
	return append(parts, path, (&url.URL{Path: path}).EscapedPath())
}

// error returns an error without secrets in its text; nil stays nil.
func (s secrets) error(err error) error {
	if err == nil {
		return nil
	}
	return redactedError{err, s.Replace(err.Error())}
}

// redactedError is an error with another text.
type redactedError struct {
	cause error
	text  string
}

// Error implements error.
func (e redactedError) Error() string { return e.text }

// Unwrap lets errors.Is and errors.As see the cause.
func (e redactedError) Unwrap() error { return e.cause }

// shutdown returns a function whose errors have no secrets.
func (s secrets) shutdown(end func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error { return s.error(end(ctx)) }
}

// logger returns a logger that logs no secrets.
func (s secrets) logger(log *slog.Logger) *slog.Logger {
	return slog.New(redactingHandler{log.Handler(), s})
}

// redactingHandler replaces secrets in messages, and in attributes that are texts or errors.
type redactingHandler struct {
	slog.Handler
	secrets secrets
}

// Handle implements slog.Handler.
func (h redactingHandler) Handle(ctx context.Context, r slog.Record) error {
	redacted := slog.NewRecord(r.Time, r.Level, h.secrets.Replace(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		redacted.AddAttrs(h.secrets.attribute(a))
		return true
	})
	return h.Handler.Handle(ctx, redacted)
}

// WithAttrs implements slog.Handler.
func (h redactingHandler) WithAttrs(attributes []slog.Attr) slog.Handler {
	redacted := make([]slog.Attr, len(attributes))
	for i, a := range attributes {
		redacted[i] = h.secrets.attribute(a)
	}
	return redactingHandler{h.Handler.WithAttrs(redacted), h.secrets}
}

// WithGroup implements slog.Handler.
func (h redactingHandler) WithGroup(name string) slog.Handler {
	return redactingHandler{h.Handler.WithGroup(name), h.secrets}
}

// attribute returns an attribute without secrets.
func (s secrets) attribute(a slog.Attr) slog.Attr {
	switch v := a.Value.Resolve(); v.Kind() {
	case slog.KindString:
		return slog.String(a.Key, s.Replace(v.String()))
	case slog.KindAny:
		if err, ok := v.Any().(error); ok {
			return slog.String(a.Key, s.Replace(err.Error()))
		}
	}
	return a
}
