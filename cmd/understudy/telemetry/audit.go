package telemetry

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/attribute"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"

	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/lifecycle"
)

// Audit is the configuration of the audit log: its flags.
type Audit struct {
	// Mode is best-effort or required.
	Mode string
	// Console prints each event on Out.
	Console bool
	Out     io.Writer
}

// The modes.
const (
	auditBestEffort = "best-effort"
	auditRequired   = "required"
)

// Bind declares the flags.
func (c *Audit) Bind(f *pflag.FlagSet) {
	f.StringVar(&c.Mode, "audit", auditBestEffort, "what a change through the admin API does if its event finds no slot in the queue of the audit log: best-effort makes it all the same, and required refuses it")
	f.BoolVar(&c.Console, "audit-console", false, "print each event of the audit log on standard output, as a line of JSON")
}

// Required reports whether a change without an event is refused.
func (c *Audit) Required() bool { return c.Mode == auditRequired }

// Check calls check with each rule and whether it is kept. others says that something else
// goes to standard output.
func (c *Audit) Check(others bool, check func(ok bool, flag, rule string)) {
	check(command.OneOf(c.Mode, auditBestEffort, auditRequired), "audit", "it is best-effort or required")
	check(!c.Required() || c.Console || configured("LOGS"), "audit",
		"required needs a collector to send events to: set OTEL_EXPORTER_OTLP_ENDPOINT, or add --audit-console")
	check(!c.Console || !others, "audit-console",
		"it writes to standard output, as --preview-console and --decision-log console do: choose one")
}

// AuditLog takes the events of the audit log.
type AuditLog struct {
	*sdklog.LoggerProvider
	queueSlots
}

// The bounds of the queues of the audit log: changes are rare.
const auditQueue, auditBatch = 2048, 128

// startAudit leaves audit nil if there is nowhere to send events to. They have a provider and
// queues of their own, so that nothing else takes their slots.
func (t *Telemetry) startAudit(
	ctx context.Context, res *resource.Resource, c Audit, logger *slog.Logger, closers *lifecycle.Closers,
) error {
	var to queueSlots
	add := func(name string, exporter sdklog.Exporter, b bounds) error {
		q, err := t.newQueue(name, exporter, b, logger, closers)
		to = append(to, q)
		return err
	}
	if configured("LOGS") {
		exporter, err := newLogExporter(ctx)
		if err != nil {
			return err
		}
		if err := add("audit", exporter, bounds{auditQueue, auditBatch, exportDelay, exportAttempt}.fromEnvironment()); err != nil {
			return err
		}
	}
	if c.Console {
		if err := add("audit_console", &jsonExporter{out: c.Out}, consoleBounds); err != nil {
			return err
		}
	}
	if len(to) == 0 {
		return nil
	}
	options := []sdklog.LoggerProviderOption{sdklog.WithResource(res)}
	for _, q := range to {
		options = append(options, sdklog.WithProcessor(q))
	}
	t.Audit = &AuditLog{sdklog.NewLoggerProvider(options...), to}
	t.Exporting = append(t.Exporting, "audit")
	return nil
}

// jsonExporter prints each record as a line of JSON: its time, severity, event, text and trace,
// and its attributes. It implements sdklog.Exporter.
type jsonExporter struct {
	// mu is held while a batch is written.
	mu  sync.Mutex
	out io.Writer
}

// Export prints the records.
func (j *jsonExporter) Export(_ context.Context, records []sdklog.Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range records {
		line, err := json.Marshal(fieldsOf(r))
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(j.out, "%s\n", line); err != nil {
			return err
		}
	}
	return nil
}

// fieldsOf are those of the line of a record.
func fieldsOf(r sdklog.Record) map[string]any {
	fields := map[string]any{
		"time": r.Timestamp().UTC().Format(time.RFC3339Nano), "severity": r.SeverityText(),
		"event": r.EventName(), "text": r.Body().AsString(),
	}
	if id := r.TraceID(); id.IsValid() {
		fields["trace_id"] = id.String()
	}
	r.WalkAttributes(func(kv attribute.KeyValue) bool {
		fields[string(kv.Key)] = plain(kv.Value)
		return true
	})
	return fields
}

// plain is a value as encoding/json writes it.
func plain(v attribute.Value) any {
	switch v.Type() {
	case attribute.MAP:
		fields := make(map[string]any)
		for _, kv := range v.AsMap() {
			fields[string(kv.Key)] = plain(kv.Value)
		}
		return fields
	case attribute.SLICE:
		var values []any
		for _, element := range v.AsSlice() {
			values = append(values, plain(element))
		}
		return values
	default:
		return v.AsInterface()
	}
}

// ForceFlush has nothing to do: lines are written as they come.
func (j *jsonExporter) ForceFlush(context.Context) error { return nil }

// Shutdown has nothing to do.
func (j *jsonExporter) Shutdown(context.Context) error { return nil }
