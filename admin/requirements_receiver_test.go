package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"

	collogspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/grpc"

	"understudy/authz"
)

// receiver is an OTLP receiver of logs.
type receiver struct {
	collogspb.UnimplementedLogsServiceServer
	address string

	mu      sync.Mutex
	records []map[string]any
}

// newReceiver serves OTLP over gRPC.
func newReceiver(t *testing.T) *receiver {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	v := &receiver{address: listener.Addr().String()}
	server := grpc.NewServer()
	collogspb.RegisterLogsServiceServer(server, v)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return v
}

// Export implements the OTLP service.
func (v *receiver) Export(
	_ context.Context, request *collogspb.ExportLogsServiceRequest,
) (*collogspb.ExportLogsServiceResponse, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, resource := range request.ResourceLogs {
		for _, scope := range resource.ScopeLogs {
			for _, record := range scope.LogRecords {
				v.records = append(v.records, decodeRecord(record))
			}
		}
	}
	return &collogspb.ExportLogsServiceResponse{}, nil
}

// decodeRecord makes a record a document: text, body, attributes, severity, event.
func decodeRecord(record *logspb.LogRecord) map[string]any {
	text := record.GetBody().GetStringValue()
	attributes := map[string]any{}
	for _, a := range record.Attributes {
		attributes[a.Key] = decodeValue(a.Value)
	}
	document := map[string]any{
		"text": text, "attributes": attributes,
		"severity": record.SeverityText, "event": record.EventName,
	}
	var body any
	if err := json.Unmarshal([]byte(strings.TrimPrefix(text, authz.LogPrefix)), &body); err == nil {
		document["body"] = body
	}
	return document
}

func decodeValue(v *commonpb.AnyValue) any {
	switch v := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return v.StringValue
	case *commonpb.AnyValue_BoolValue:
		return v.BoolValue
	case *commonpb.AnyValue_IntValue:
		return float64(v.IntValue)
	default:
		return v
	}
}

// all returns the records so far.
func (v *receiver) all() []map[string]any {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]map[string]any(nil), v.records...)
}

// of returns the records of the experiment with this ID, or of policy/experiment.
func (v *receiver) of(id string) []map[string]any {
	policy, experiment, ok := strings.Cut(id, "/")
	if !ok {
		policy, experiment = "web", id
	}
	var out []map[string]any
	for _, record := range v.all() {
		name, _ := dig(record, `.body.experiment`)
		if text, _ := name.(string); strings.HasSuffix(text, "/policies/"+policy+"/experiments/"+experiment) {
			out = append(out, record)
		}
	}
	return out
}

// logBuffer keeps what is logged, one JSON object a line.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (b *logBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(line)
}

func (b *logBuffer) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// checkLogs holds every row to A-78: preview records begin with the prefix, and
// nothing else does.
func (r *row) checkLogs() {
	r.logs.mu.Lock()
	defer r.logs.mu.Unlock()
	for line := range strings.Lines(r.logs.text.String()) {
		if strings.Contains(line, `"`+authz.LogPrefix) {
			r.Errorf("a log has the prefix of previews: %s", line)
		}
	}
	if r.receiver == nil {
		return
	}
	for _, record := range r.receiver.all() {
		if !strings.HasPrefix(plain(record["text"]), authz.LogPrefix+" ") {
			r.Errorf("a record without the prefix: %s", asJSON(record))
		}
	}
}

func init() {
	rows["A-78"] = func(r *row) {
		r.checkLogs()
		if r.logs.text.Len() == 0 {
			r.Error("nothing was logged")
		}
	}
}
