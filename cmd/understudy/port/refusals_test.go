package port

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// lockedBuffer is a log that a test reads while a timer may write it.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// TestRefusalsDoNotFloodTheLog: a line a minute at most, and none for a probe.
func TestRefusalsDoNotFloodTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &lockedBuffer{}
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
