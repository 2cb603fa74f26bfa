package telemetry

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdklog "go.opentelemetry.io/otel/sdk/log"

	"understudy/authz"
	"understudy/cmd/understudy/terminal"
)

// consoleInterval is how long a record waits for others before it is printed.
const consoleInterval = 100 * time.Millisecond

// consoleExporter prints preview records for people, one line each. It implements
// sdklog.Exporter.
type consoleExporter struct {
	// mu is held while a batch is written, so that lines of two batches do not mix.
	mu     sync.Mutex
	out    io.Writer
	colour terminal.Palette
}

// NewConsole returns an exporter that writes to out, in colours if that is a terminal.
func NewConsole(out io.Writer) *consoleExporter {
	return &consoleExporter{out: out, colour: terminal.PaletteFor(out)}
}

// Export prints the records.
func (c *consoleExporter) Export(_ context.Context, records []sdklog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range records {
		if _, err := fmt.Fprintln(c.out, c.line(r)); err != nil {
			return err
		}
	}
	return nil
}

// line is like:
//
//	12:00:01.123  ALLOW → DENY   NEWLY_DENIED  GET /api/orders  spiffe://…/web user=ann  tighter: rule "main"  2f6c…
//
// After the principal are the labels that the policy gave, after the experiment its reason or,
// for a changed response, the names of what changed. The last is the decision ID, by
// which the request is found in other logs.
func (c *consoleExporter) line(r sdklog.Record) string {
	about, who := make(map[string]string), []string(nil)
	r.WalkAttributes(func(kv attribute.KeyValue) bool {
		about[string(kv.Key)] = kv.Value.String()
		if label, ok := strings.CutPrefix(string(kv.Key), authz.AttributeLabel); ok {
			who = append(who, label+"="+kv.Value.String())
		}
		return true
	})
	if principal := about["understudy.principal"]; principal != "" {
		who = append([]string{principal}, who...)
	}
	experiment := authz.ResourceName(about["understudy.experiment.name"])
	line := fmt.Sprintf("%s  %s → %s  %-16s  %s %s  %s  %s",
		c.colour.Dim(r.Timestamp().Format("15:04:05.000")),
		c.colour.Result(fmt.Sprintf("%-5s", about["understudy.policy.result"])),
		c.colour.Result(fmt.Sprintf("%-5s", about["understudy.experiment.result"])),
		about["understudy.preview.difference"],
		about["http.request.method"], about["url.path"],
		strings.Join(who, " "),
		c.colour.Bold(experiment.ID()),
	)
	why := about["understudy.preview.reason"]
	switch about["understudy.preview.difference"] {
	case string(authz.Unchanged):
		why = ""
	case string(authz.ResponseChanged):
		why = about["understudy.preview.changed"]
	}
	if why != "" {
		line += ": " + why
	}
	return line + "  " + c.colour.Dim(about["understudy.decision_id"])
}

// ForceFlush has nothing to do: lines are written as they come.
func (c *consoleExporter) ForceFlush(context.Context) error { return nil }

// Shutdown has nothing to do.
func (c *consoleExporter) Shutdown(context.Context) error { return nil }
