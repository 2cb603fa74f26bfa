package telemetry_test

import (
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"

	"understudy/cmd/understudy/telemetry"
)

// TestALineSaysWhoAndWhat: who asks, by principal and labels, and why the decision differs or
// what of the response does.
func TestALineSaysWhoAndWhat(t *testing.T) {
	for _, c := range []struct {
		name  string
		about map[string]string
		want  string
	}{
		{"a denial", map[string]string{
			"understudy.policy.result": "ALLOW", "understudy.experiment.result": "DENY", "understudy.preview.difference": "NEWLY_DENIED",
			"understudy.preview.reason": "no role", "understudy.principal": "spiffe://x/web", "understudy.label.user": "ann",
		}, "12:00:01.123  ALLOW → DENY   NEWLY_DENIED      GET /a  spiffe://x/web user=ann  tighter: no role  d1"},
		{"a changed response", map[string]string{
			"understudy.policy.result": "DENY", "understudy.experiment.result": "DENY", "understudy.preview.difference": "RESPONSE_CHANGED",
			"understudy.preview.reason": "no role", "understudy.preview.changed": "body, status", "understudy.label.user": "ann",
		}, "12:00:01.123  DENY  → DENY   RESPONSE_CHANGED  GET /a  user=ann  tighter: body, status  d1"},
		{"no difference", map[string]string{
			"understudy.policy.result": "DENY", "understudy.experiment.result": "DENY", "understudy.preview.difference": "UNCHANGED",
			"understudy.preview.reason": "no role", "understudy.principal": "p",
		}, "12:00:01.123  DENY  → DENY   UNCHANGED         GET /a  p  tighter  d1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			logger := sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewSimpleProcessor(telemetry.NewConsole(&out)))).Logger("test")
			var r log.Record
			r.SetTimestamp(time.Date(2026, 1, 1, 12, 0, 1, 123e6, time.UTC))
			r.AddAttributes(
				attribute.String("understudy.experiment.name", "projects/p/locations/l/policies/shop/experiments/tighter"),
				attribute.String("http.request.method", "GET"), attribute.String("url.path", "/a"), attribute.String("understudy.decision_id", "d1"),
			)
			for key, value := range c.about {
				r.AddAttributes(attribute.String(key, value))
			}
			logger.Emit(t.Context(), r)
			if got := strings.TrimSuffix(out.String(), "\n"); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}
