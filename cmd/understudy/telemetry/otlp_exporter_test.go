package telemetry_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"

	"understudy/cmd/testkit"
	"understudy/cmd/understudy/port/certtest"
)

// TestRecordsAreAlikeOverBothProtocols, and the SDK counts what it exports over either.
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

// TestNoUTF8 costs neither the record nor its batch, and the record of another queue stays as
// it is.
func TestNoUTF8(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			c := newCollector(protocol)
			c.listen(t)
			e := export(t, c, 100)
			logger := e.Logs.Logger("test")
			var r log.Record
			r.SetBody(attribute.StringValue("valid"))
			logger.Emit(t.Context(), r)
			r.SetBody(attribute.StringValue("a\xffb"))
			r.SetEventName("\xc3")
			r.AddAttributes(attribute.String("k\xff", "v\xff"), attribute.StringSlice("l", []string{"\xff"}),
				attribute.KeyValue{Key: "m", Value: attribute.MapValue(attribute.String("\xff", "\xff"))},
				attribute.KeyValue{Key: "s", Value: attribute.SliceValue(attribute.StringValue("\xff"))})
			logger.Emit(t.Context(), r)
			e.close(t, testkit.Patience) // which exports what is no full batch
			c.awaitRecords(t, 2)
			records := c.latest.GetResourceLogs()[0].GetScopeLogs()[0].GetLogRecords()
			record := records[len(records)-1]
			value := func(i int) *commonpb.AnyValue { return record.GetAttributes()[i].GetValue() }
			got := []string{
				record.GetBody().GetStringValue(), record.GetEventName(), record.GetAttributes()[0].GetKey(), value(0).GetStringValue(),
				value(1).GetArrayValue().GetValues()[0].GetStringValue(),
				value(2).GetKvlistValue().GetValues()[0].GetKey(), value(2).GetKvlistValue().GetValues()[0].GetValue().GetStringValue(),
				value(3).GetArrayValue().GetValues()[0].GetStringValue(),
			}
			want := []string{"a\uFFFDb", "\uFFFD", "k\uFFFD", "v\uFFFD", "\uFFFD", "\uFFFD", "\uFFFD", "\uFFFD"}
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestCertificatesOfTheEnvironment: a collector over TLS has a certificate of an authority that
// the environment names, and asks for that of the exporter.
func TestCertificatesOfTheEnvironment(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			ca := certtest.NewAuthority(t, t.TempDir(), "ca")
			client := ca.Issue(t, "exporter", 2, time.Hour, x509.ExtKeyUsageClientAuth)
			c := newCollector(protocol)
			c.tls = tlsOf(t, ca)
			c.listen(t)
			t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", ca.File)
			t.Setenv("OTEL_EXPORTER_OTLP_LOGS_CLIENT_CERTIFICATE", client.Cert)
			t.Setenv("OTEL_EXPORTER_OTLP_LOGS_CLIENT_KEY", client.Key)
			t.Setenv("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "authorization=secret%20of%20the%20sidecar")
			e := export(t, c, 100)
			e.emit(t, 0, 10)
			c.awaitRecords(t, 10)
			e.close(t, testkit.Patience)
			if got := c.authorization(); got != "secret of the sidecar" {
				t.Errorf("the collector got the header %q", got)
			}
			for range len(e.warnings) {
				if line := <-e.warnings; strings.Contains(line, "secret") {
					t.Errorf("the log has the header: %s", line)
				}
			}
		})
	}
}

// tlsOf is how a collector speaks TLS that asks for certificates of an authority.
func tlsOf(t *testing.T, ca *certtest.Authority) *tls.Config {
	t.Helper()
	server := ca.Server(t, "collector", 1)
	pair, err := tls.LoadX509KeyPair(server.Cert, server.Key)
	if err != nil {
		t.Fatal(err)
	}
	authorities := x509.NewCertPool()
	authorities.AddCert(ca.Cert)
	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authorities}
}
