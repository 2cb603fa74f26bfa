package logcodec

import (
	"time"

	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
	"google.golang.org/protobuf/encoding/protowire"
)

// The numbers of the fields, of opentelemetry-proto 1.10:
// collector/logs/v1/logs_service.proto, logs/v1/logs.proto and resource/v1/resource.proto.
const (
	requestResourceLogs protowire.Number = 1

	resourceLogsResource  protowire.Number = 1
	resourceLogsScopeLogs protowire.Number = 2
	resourceLogsSchemaURL protowire.Number = 3

	scopeLogsScope     protowire.Number = 1
	scopeLogsRecords   protowire.Number = 2
	scopeLogsSchemaURL protowire.Number = 3

	resourceAttributes protowire.Number = 1

	scopeName       protowire.Number = 1
	scopeVersion    protowire.Number = 2
	scopeAttributes protowire.Number = 3

	recordTime         protowire.Number = 1
	recordSeverity     protowire.Number = 2
	recordSeverityText protowire.Number = 3
	recordBody         protowire.Number = 5
	recordAttributes   protowire.Number = 6
	recordDropped      protowire.Number = 7
	recordFlags        protowire.Number = 8
	recordTraceID      protowire.Number = 9
	recordSpanID       protowire.Number = 10
	recordObserved     protowire.Number = 11
	recordEventName    protowire.Number = 12
)

// The bytes that the lengths of messages take, if they are as long as most.
const (
	shortLength  = 1 // up to 127 bytes
	recordLength = 2 // up to 16 KiB
	batchLength  = 3 // up to 2 MiB
)

// appendRequest appends an ExportLogsServiceRequest. The records of a provider have one
// resource, and most have the scope of the one before: each run of them is a ResourceLogs.
func appendRequest(dst []byte, records []sdklog.Record) []byte {
	for len(records) > 0 {
		first, n := &records[0], 1
		scope := first.InstrumentationScope()
		for n < len(records) && records[n].Resource() == first.Resource() && records[n].InstrumentationScope() == scope {
			n++
		}
		dst = appendResourceLogs(dst, first.Resource(), scope, records[:n])
		records = records[n:]
	}
	return dst
}

func appendResourceLogs(dst []byte, r *resource.Resource, scope instrumentation.Scope, records []sdklog.Record) []byte {
	dst, logs := begin(dst, requestResourceLogs, batchLength)
	if r.Len() > 0 {
		var at int
		dst, at = begin(dst, resourceLogsResource, recordLength)
		for i := r.Iter(); i.Next(); {
			dst = appendKeyValue(dst, resourceAttributes, i.Attribute())
		}
		dst = end(dst, at, recordLength)
	}
	dst, scoped := begin(dst, resourceLogsScopeLogs, batchLength)
	dst = appendScope(dst, scope)
	for i := range records {
		dst = appendRecord(dst, &records[i])
	}
	dst = appendText(dst, scopeLogsSchemaURL, scope.SchemaURL)
	dst = end(dst, scoped, batchLength)
	dst = appendText(dst, resourceLogsSchemaURL, r.SchemaURL())
	return end(dst, logs, batchLength)
}

func appendScope(dst []byte, scope instrumentation.Scope) []byte {
	if scope == (instrumentation.Scope{}) {
		return dst
	}
	dst, at := begin(dst, scopeLogsScope, shortLength)
	dst = appendText(dst, scopeName, scope.Name)
	dst = appendText(dst, scopeVersion, scope.Version)
	for i := scope.Attributes.Iter(); i.Next(); {
		dst = appendKeyValue(dst, scopeAttributes, i.Attribute())
	}
	return end(dst, at, shortLength)
}

func appendRecord(dst []byte, r *sdklog.Record) []byte {
	dst, at := begin(dst, scopeLogsRecords, recordLength)
	dst = appendTime(dst, recordTime, r.Timestamp())
	dst = appendTime(dst, recordObserved, r.ObservedTimestamp())
	// A severity of the SDK has the number of OTLP; those beyond have none.
	if s := r.Severity(); 0 < s && s <= maxSeverity {
		dst = appendVarint(dst, recordSeverity, uint64(s))
	}
	dst = appendText(dst, recordSeverityText, r.SeverityText())
	dst = appendText(dst, recordEventName, r.EventName())
	dst = appendValue(dst, recordBody, r.Body())
	dst = appendAttributes(dst, recordAttributes, r)
	if n := r.DroppedAttributes(); n > 0 {
		dst = appendVarint(dst, recordDropped, uint64(n)) //nolint:gosec // above 0
	}
	if flags := r.TraceFlags(); flags != 0 {
		dst = protowire.AppendFixed32(protowire.AppendTag(dst, recordFlags, protowire.Fixed32Type), uint32(flags))
	}
	if id := r.TraceID(); id.IsValid() {
		dst = appendBytes(dst, recordTraceID, id[:])
	}
	if id := r.SpanID(); id.IsValid() {
		dst = appendBytes(dst, recordSpanID, id[:])
	}
	return end(dst, at, recordLength)
}

// maxSeverity is FATAL4.
const maxSeverity = 24

// appendTime appends a time in nanoseconds since 1970; an earlier one, as that of a record
// without a time, is 0.
func appendTime(dst []byte, field protowire.Number, t time.Time) []byte {
	nanoseconds := t.UnixNano()
	if nanoseconds <= 0 {
		return dst
	}
	return protowire.AppendFixed64(protowire.AppendTag(dst, field, protowire.Fixed64Type), uint64(nanoseconds))
}
