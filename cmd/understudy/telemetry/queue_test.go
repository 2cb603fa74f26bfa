package telemetry_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"

	"understudy/cmd/testkit"
	"understudy/cmd/understudy/lifecycle"
	"understudy/cmd/understudy/telemetry"
)

var protocols = []string{"grpc", "http/protobuf"}

// exporting is the telemetry of a process that exports to a collector.
type exporting struct {
	*telemetry.Telemetry
	closers *lifecycle.Closers
	logger  *slog.Logger
	// warnings are the messages of the log.
	warnings chan string
}

// export starts the telemetry as the environment of a process sets it up, with a queue of
// so many records. It exports batches of ten, and what is left at the end. A collector that is
// away or hangs has to answer within half a second.
func export(t *testing.T, c *collector, queue int) *exporting {
	t.Helper()
	request, attempt := testkit.Patience, 2*testkit.Patience
	if c.answer == hangs || !c.listens {
		request, attempt = 500*time.Millisecond, time.Second
	}
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_LOGS_PROTOCOL": c.protocol,
		"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": map[string]string{"grpc": c.scheme() + c.address, "http/protobuf": c.scheme() + c.address + "/v1/logs"}[c.protocol],
		"OTEL_EXPORTER_OTLP_LOGS_TIMEOUT":  fmt.Sprint(request.Milliseconds()),
		"OTEL_BLRP_SCHEDULE_DELAY":         fmt.Sprint(time.Hour.Milliseconds()),
		"OTEL_BLRP_EXPORT_TIMEOUT":         fmt.Sprint(attempt.Milliseconds()),
		"OTEL_BLRP_MAX_QUEUE_SIZE":         fmt.Sprint(queue),
		"OTEL_BLRP_MAX_EXPORT_BATCH_SIZE":  "10",
	} {
		t.Setenv(name, value)
	}
	e := &exporting{closers: &lifecycle.Closers{}, warnings: make(chan string, 1000)}
	e.logger = slog.New(slog.NewTextHandler(lines(e.warnings), nil))
	var err error
	if e.Telemetry, err = telemetry.New(t.Context(), telemetry.Config{Node: "test"}, e.logger, e.closers); err != nil {
		t.Fatal(err)
	}
	return e
}

// lines is a writer of log lines.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	select {
	case l <- string(p):
	default:
	}
	return len(p), nil
}

// emit emits records, numbered from first on.
func (e *exporting) emit(t *testing.T, first, n int) {
	t.Helper()
	logger := e.Logs.Logger("test")
	for i := range n {
		var r log.Record
		r.SetBody(attribute.StringValue(fmt.Sprint(first + i)))
		logger.Emit(t.Context(), r)
	}
}

// await waits until the log has a line.
func (e *exporting) await(t *testing.T, text string) {
	t.Helper()
	for line := ""; !strings.Contains(line, text); {
		line = testkit.Receive(t, fmt.Sprintf("the log says %q", text), e.warnings)
	}
}

// close ends the telemetry in so much time.
func (e *exporting) close(t *testing.T, within time.Duration) {
	t.Helper()
	if err := e.closers.Close(lifecycle.NewEnding(within, nil), e.logger); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// page is the page of metrics.
func (e *exporting) page(t *testing.T) string {
	t.Helper()
	w := httptest.NewRecorder()
	e.Page.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	page, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// dropped is what the page of metrics says.
func (e *exporting) dropped(t *testing.T, reason string) (n int) {
	t.Helper()
	page := e.page(t)
	name := `understudy_export_dropped_total{queue="preview",reason="` + reason + `"} `
	_, after, found := strings.Cut(page, name)
	if _, err := fmt.Sscan(after, &n); !found || err != nil {
		t.Fatalf("there is no %s on\n%s", name, page)
	}
	return n
}

// awaitRecords waits until the collector has got so many different records.
func (c *collector) awaitRecords(t *testing.T, want int) {
	t.Helper()
	for c.count() < want {
		testkit.Receive(t, fmt.Sprintf("%d records; %d came", want, c.count()), c.arrived)
	}
}

// TestACollectorThatIsAway costs no record, whatever it does meanwhile, as long as the queue
// lasts.
func TestACollectorThatIsAway(t *testing.T) {
	const records = 100
	for _, protocol := range protocols {
		for _, away := range []answer{"", busy, hangs} { // "": nobody listens
			t.Run(protocol+" "+string(away), func(t *testing.T) {
				c := newCollector(protocol)
				if away != "" {
					c.now(away)
					c.listen(t)
				}
				e := export(t, c, records)
				e.emit(t, 0, records)
				if away == "" {
					e.await(t, "the collector takes no records")
					c.listen(t)
				} else {
					for range 3 { // attempts
						<-c.asked
					}
					c.now(takes)
				}
				c.awaitRecords(t, records)
				for _, reason := range []string{"queue_full", "refused", "shutdown"} {
					if n := e.dropped(t, reason); n != 0 {
						t.Errorf("%d records are counted as %s", n, reason)
					}
				}
				e.close(t, testkit.Patience)
			})
		}
	}
}

// TestBeyondTheQueue: what does not fit is counted, each record once, and warned of.
func TestBeyondTheQueue(t *testing.T) {
	const room, more = 50, 123
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			c := newCollector(protocol)
			e := export(t, c, room)
			e.emit(t, 0, room+more)
			if n := e.dropped(t, "queue_full"); n != more {
				t.Errorf("%d records are counted while the collector is away, want %d", n, more)
			}
			c.listen(t)
			c.awaitRecords(t, room)
			e.await(t, "records are dropped")
			if n := e.dropped(t, "queue_full"); n != more {
				t.Errorf("%d records are counted in the end, want %d", n, more)
			}
			e.close(t, testkit.Patience)
			if got := c.count(); got != room {
				t.Errorf("%d records came, want %d", got, room)
			}
		})
	}
}

// TestRefusedRecords are not sent again: the collector would refuse them as well.
func TestRefusedRecords(t *testing.T) {
	for _, protocol := range protocols {
		for refusal, want := range map[answer]int{refuses: 10, takesNot: 1} {
			t.Run(protocol+" "+string(refusal), func(t *testing.T) {
				c := newCollector(protocol)
				c.now(refusal)
				c.listen(t)
				e := export(t, c, 100)
				e.emit(t, 0, 10) // one batch
				<-c.asked
				c.now(takes)
				e.emit(t, 10, 10) // another one
				c.awaitRecords(t, 20-map[answer]int{refuses: 10}[refusal])
				if n := e.dropped(t, "refused"); n != want {
					t.Errorf("%d records are counted as refused, want %d", n, want)
				}
				e.await(t, "the collector refuses records")
				e.close(t, testkit.Patience)
			})
		}
	}
}

// TestTheEndOfAQueue: a shutdown exports what waits, as long as there is time; then it counts
// what is left.
func TestTheEndOfAQueue(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol+" takes all", func(t *testing.T) {
			c := newCollector(protocol)
			c.listen(t)
			e := export(t, c, 100)
			e.emit(t, 0, 95)
			e.close(t, testkit.Patience)
			if got := c.count(); got != 95 {
				t.Errorf("%d records came, want 95", got)
			}
		})
		t.Run(protocol+" hangs", func(t *testing.T) {
			c := newCollector(protocol)
			c.now(hangs)
			c.listen(t)
			e := export(t, c, 100)
			e.emit(t, 0, 95)
			<-c.asked
			e.close(t, 2*time.Second)
			e.await(t, "lost=95")
		})
	}
}

// attributesOf is an exporter that says how many attributes each record has.
type attributesOf chan int

func (a attributesOf) Export(_ context.Context, records []sdklog.Record) error {
	for _, r := range records {
		a <- r.AttributesLen()
	}
	return nil
}
func (attributesOf) ForceFlush(context.Context) error { return nil }
func (attributesOf) Shutdown(context.Context) error   { return nil }

// TestTwoQueues of one provider keep the same records, and export them at the same time.
func TestTwoQueues(t *testing.T) {
	const records = 1000
	c, console, record := newCollector("grpc"), make(attributesOf, records), previewRecord()
	c.listen(t)
	t.Setenv("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "grpc")
	t.Setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://"+c.address)
	logger, closers := slog.New(slog.DiscardHandler), &lifecycle.Closers{}
	tel, err := telemetry.New(t.Context(), telemetry.Config{Node: "test", Console: console}, logger, closers)
	if err != nil {
		t.Fatal(err)
	}
	for i := range records {
		record.SetBody(attribute.StringValue(fmt.Sprint(i)))
		tel.Logs.Logger("test").Emit(t.Context(), record)
	}
	if err := closers.Close(lifecycle.NewEnding(testkit.Patience, nil), logger); err != nil {
		t.Fatal(err)
	}
	if got := c.count(); got != records {
		t.Errorf("the collector got %d different records, want %d", got, records)
	}
	for range records {
		if got := testkit.Receive(t, "the record in the console", console); got != record.AttributesLen() {
			t.Fatalf("a record has %d attributes on the console, want %d", got, record.AttributesLen())
		}
	}
}
