package demo

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdklog "go.opentelemetry.io/otel/sdk/log"

	"understudy/cmd/understudy/terminal"
)

// collected keeps preview records in memory. It implements sdklog.Exporter.
type collected struct {
	mu sync.Mutex
	// records are in the order in which they were exported.
	records []previewRecord
}

// previewRecord is a record's body and attributes.
type previewRecord struct {
	// body is PolicyPreviewLog as text, about the attributes of the record by name.
	body  string
	about map[string]string
}

// difference is how the two decisions differ, such as NEWLY_DENIED.
func (p previewRecord) difference() string { return p.about["understudy.preview.difference"] }

// Export keeps copies of the records.
func (c *collected) Export(_ context.Context, records []sdklog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range records {
		p := previewRecord{body: r.Body().AsString(), about: make(map[string]string)}
		r.WalkAttributes(func(kv attribute.KeyValue) bool {
			p.about[string(kv.Key)] = kv.Value.String()
			return true
		})
		c.records = append(c.records, p)
	}
	return nil
}

// ForceFlush has nothing to do.
func (c *collected) ForceFlush(context.Context) error { return nil }

// Shutdown has nothing to do.
func (c *collected) Shutdown(context.Context) error { return nil }

// reset forgets the records of the traffic before.
func (c *collected) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.records = nil
}

// all returns a copy: records may come while it is read.
func (c *collected) all() []previewRecord {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.records)
}

// await waits until n records are there.
//
// Records are made off the request path, so they come after the answers; a preview that
// was dropped never comes, which is why the wait is bounded.
func (c *collected) await(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for ticker := time.NewTicker(20 * time.Millisecond); ; {
		if len(c.all()) >= n {
			ticker.Stop()
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("only %d of %d preview records came: %w", len(c.all()), n, ctx.Err())
		case <-ticker.C:
		}
	}
}

// count returns how many records have a difference.
func (c *collected) count(difference string) (n int) {
	for _, r := range c.all() {
		if r.difference() == difference {
			n++
		}
	}
	return n
}

// example returns some of what the first record with a difference says, a line each. Its
// body begins with PolicyPreviewLog (AIP-236), and goes on with the same facts.
func (c *collected) example(difference string) (lines []string) {
	for _, r := range c.all() {
		if r.difference() != difference {
			continue
		}
		for _, name := range []string{
			"http.request.method", "url.path", "understudy.principal", "understudy.policy.result", "understudy.experiment.result",
			"understudy.preview.difference", "understudy.preview.reason",
		} {
			lines = append(lines, fmt.Sprintf("%-31s%s", name, r.about[name]))
		}
		return lines
	}
	return nil
}

// row is a line of the table: requests that differ in the same way.
//
// The path is that of the request without its query, so that lines add up.
type row struct{ difference, method, path, caller string }

// table prints what would change, the most frequent first.
func (c *collected) table(w io.Writer, colour terminal.Palette) {
	counts := make(map[row]int)
	unchanged := 0
	for _, r := range c.all() {
		if r.difference() == "UNCHANGED" {
			unchanged++
			continue
		}
		principal := r.about["understudy.principal"]
		counts[row{
			r.difference(), r.about["http.request.method"], r.about["url.path"],
			principal[strings.LastIndexByte(principal, '/')+1:],
		}]++
	}
	var text strings.Builder
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "   REQUESTS\tCHANGE\tMETHOD\tPATH\tCALLER")
	rows := slices.SortedFunc(maps.Keys(counts), func(a, b row) int {
		return cmp.Or(cmp.Compare(a.difference, b.difference), cmp.Compare(counts[b], counts[a]), cmp.Compare(a.path, b.path),
			cmp.Compare(a.caller, b.caller))
	})
	for _, r := range rows {
		fmt.Fprintf(t, "   %d\t%s\t%s\t%s\t%s\n", counts[r], r.difference, r.method, r.path, r.caller)
	}
	_ = t.Flush()
	for line := range strings.Lines(text.String()) {
		if strings.Contains(line, "NEWLY_DENIED") {
			line = colour.Red(strings.TrimSuffix(line, "\n")) + "\n"
		}
		fmt.Fprint(w, line)
	}
	fmt.Fprintf(w, "   %s\n", colour.Dim(fmt.Sprintf("%d requests would be decided as before.", unchanged)))
}
