// Package logreader reads decisions that were recorded: the entries of decision logs.
//
// A file is read in two steps. A [Scanner] splits it into records, one after the other and
// without looking into them: lines, objects over several lines, or the elements of arrays,
// whether compressed by gzip or not. [Parse] then makes entries of a record; records are
// independent of each other, so that may be done by several goroutines. What a record is, its
// content says:
//
//   - an event of OPA's decision log, as opa-envoy-plugin and this project write it too, alone
//     or as a line of the JSON console, which has other lines in between;
//   - logs in OTLP's JSON, as a collector's file exporter writes them, with events as bodies;
//   - a CheckRequest of Envoy's in protojson;
//   - any of these behind the prefix that a container's runtime puts before a line, or in the
//     envelope of Docker's.
//
// An [Entry] keeps its JSON as it was written, as a [Document]: mostly a fraction of it is
// ever looked at. Memory is bounded by the size of one record. A record that cannot be read is
// counted by anyone who reads, and ends nothing.
package logreader
