// Package logcodec encodes log records as an exporter of OTLP sends them over gRPC.
//
//	[]sdklog.Record ──Codec──▶ ExportLogsServiceRequest on the wire
//
// The exporters of the SDK build a message of each record first, with an object for each
// attribute, which the protobuf library then measures and walks by reflection. Here the bytes
// are appended to a buffer directly: of what a record costs, half is saved. What is on the wire
// is the same, but for text that is no UTF-8: see [Codec].
package logcodec
