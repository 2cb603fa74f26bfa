package main

import "google.golang.org/protobuf/encoding/protowire"

// The numbers of the fields of envoy.service.auth.v3 that the generator writes. A
// message is written in the order of its numbers, as Envoy does.
const (
	// The names are MESSAGE and FIELD; only those stand here that are written.
	checkAttributes = 1

	attributesSource      = 1
	attributesDestination = 2
	attributesRequest     = 4
	attributesMetadata    = 11
	attributesRoute       = 13

	peerAddress   = 1
	peerPrincipal = 4

	addressSocket = 1 // of envoy.config.core.v3.Address
	socketAddress = 2
	socketPort    = 3

	requestTime = 1
	requestHTTP = 2

	httpID       = 1
	httpMethod   = 2
	httpHeaders  = 3
	httpPath     = 4
	httpHost     = 5
	httpScheme   = 6
	httpSize     = 9
	httpProtocol = 10
	httpBody     = 11

	timeSeconds = 1
	timeNanos   = 2

	// of envoy.config.core.v3.Metadata and google.protobuf
	metadataFilters = 1
	structFields    = 1
	valueNumber     = 2
	valueString     = 3
	valueStruct     = 5
	valueList       = 6
	listValues      = 1
	entryKey        = 1
	entryValue      = 2
)

// text is what a field of strings can be written from.
type text interface{ ~string | ~[]byte }

// appendField appends a field that has a length: a string or a message that is encoded
// already. The generated types are not used: filling and marshalling one takes several
// times longer than the requests are allowed to cost here.
func appendField[T text](dst []byte, number protowire.Number, value T) []byte {
	dst = protowire.AppendTag(dst, number, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(len(value)))
	return append(dst, value...)
}

// appendNumber appends a field with a varint.
func appendNumber(dst []byte, number protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, number, protowire.VarintType), value)
}

// appendEntry appends an entry of a map of strings. In protobuf that is a message with
// the key as field 1 and the value as field 2.
func appendEntry[K, V text](dst []byte, number protowire.Number, key K, value V) []byte {
	size := protowire.SizeTag(1) + protowire.SizeBytes(len(key)) + protowire.SizeTag(2) + protowire.SizeBytes(len(value))
	dst = protowire.AppendTag(dst, number, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(size))
	return appendField(appendField(dst, 1, key), 2, value)
}
