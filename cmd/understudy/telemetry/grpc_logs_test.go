package telemetry_test

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/log"
	"google.golang.org/protobuf/proto"

	"understudy/cmd/testkit"
)

// TestRecordsAreAlikeOverBothProtocols: over gRPC they are encoded here, over HTTP by the SDK.
// The SDK counts what it exports in both cases.
func TestRecordsAreAlikeOverBothProtocols(t *testing.T) {
	const records = 10 // one batch
	counted := regexp.MustCompile(`otel_sdk_exporter_log_exported_total\{[^}]*\} 10\n`)
	taken := map[string]*collector{}
	for _, protocol := range protocols {
		for _, compression := range []string{"none", "gzip"} {
			name := protocol + " " + compression
			t.Run(name, func(t *testing.T) {
				t.Setenv("OTEL_EXPORTER_OTLP_LOGS_COMPRESSION", strings.TrimPrefix(compression, "none"))
				c := newCollector(protocol)
				c.listen(t)
				e := export(t, c, 100)
				logger, record := e.Logs.Logger("understudy/authz", log.WithInstrumentationVersion("v1")), previewRecord()
				record.SetObservedTimestamp(time.Unix(1_800_000_001, 0))
				for range records {
					logger.Emit(t.Context(), record)
				}
				if err := e.Logs.(interface{ ForceFlush(context.Context) error }).ForceFlush(t.Context()); err != nil {
					t.Fatal(err)
				}
				if page := e.page(t); !counted.MatchString(page) {
					t.Errorf("the SDK has not counted %d records:\n%s", records, page)
				}
				e.close(t, testkit.Patience)
				taken[name] = c
			})
		}
	}
	want := taken["http/protobuf none"].latest
	if n := len(want.GetResourceLogs()[0].GetScopeLogs()[0].GetLogRecords()); n != records {
		t.Fatalf("a batch has %d records, want %d", n, records)
	}
	for name, c := range taken {
		if !proto.Equal(c.latest, want) {
			t.Errorf("%s: got %v\nwant %v", name, c.latest, want)
		}
	}
}
