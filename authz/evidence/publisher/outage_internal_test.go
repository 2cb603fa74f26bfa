package publisher

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestAnOutageThatLastsIsToldOnce, and that it is over.
func TestAnOutageThatLastsIsToldOnce(t *testing.T) {
	var out bytes.Buffer
	log, now, failed := slog.New(slog.NewTextHandler(&out, nil)), time.Unix(1_700_000_000, 0), errors.New("WRONGTYPE")
	var o outage
	note := func(err error, times int) {
		for range times {
			o.note(log, now, err)
			now = now.Add(2 * time.Second)
		}
	}
	note(failed, 5)
	note(nil, 1)
	if out.Len() > 0 {
		t.Errorf("a short outage is logged: %s", out.String())
	}
	note(failed, 60)
	if text := out.String(); strings.Count(text, "level=WARN") != 1 || !strings.Contains(text, "WRONGTYPE") {
		t.Errorf("got %q, want one warning with the error", text)
	}
	note(nil, 3)
	if text := out.String(); strings.Count(text, "level=INFO") != 1 {
		t.Errorf("got %q, want it said once that it is over", text)
	}
}
