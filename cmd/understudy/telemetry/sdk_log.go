package telemetry

import (
	"log/slog"

	"github.com/go-logr/logr"
)

// sdkLog logs what the SDK logs by itself, without values: the SDK adds the variable of the
// environment that it could not parse, and its errors quote that. It implements logr.LogSink.
//
// CheckEnvironment and removeMalformed know the variables and their rules, so a message of the SDK
// means that it has a rule which they do not know.
type sdkLog struct{ log *slog.Logger }

// Init implements logr.LogSink.
func (sdkLog) Init(logr.RuntimeInfo) {}

// Enabled says no to all but errors, as the SDK's own logger does.
func (sdkLog) Enabled(int) bool { return false }

// Info implements logr.LogSink.
func (sdkLog) Info(int, string, ...any) {}

// Error logs the message alone.
func (s sdkLog) Error(_ error, message string, _ ...any) {
	s.log.Warn("telemetry failed; check the OTEL_* variables", "error", message)
}

// WithValues implements logr.LogSink.
func (s sdkLog) WithValues(...any) logr.LogSink { return s }

// WithName implements logr.LogSink.
func (s sdkLog) WithName(string) logr.LogSink { return s }
