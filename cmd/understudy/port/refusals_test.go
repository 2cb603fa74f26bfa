package port

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"understudy/authz/diagnostics/logtest"
)

// TestRefusalsDoNotFloodTheLog: a line a minute at most, and none for a probe.
func TestRefusalsDoNotFloodTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &logtest.Buffer{}
		r, err := NewRefusals("authz", sdkmetric.NewMeterProvider(), slog.New(slog.NewTextHandler(out, nil)))
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			r.refused("10.0.0.1:1", "tls: client didn't provide a certificate")
			r.refused("10.0.0.1:1", "EOF")
		}
		if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=WARN") || !strings.Contains(got, "reason=no_client_certificate") {
			t.Errorf("the log is\n%s", got)
		}
		time.Sleep(refusalsEvery)
		synctest.Wait()
		if got := out.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "left_out=98") {
			t.Errorf("after a minute the log is\n%s", got)
		}
		time.Sleep(time.Hour) // no timer outlives the test
	})
}
