package main

import (
	"encoding/json"
	"math"
	"math/rand/v2"

	"google.golang.org/protobuf/encoding/protowire"
)

// metadata is what Envoy's jwt_authn filter makes of a verified token: the encoded
// entries of the Struct with its claims. Envoy writes them in another order with nearly
// every message, because a map in protobuf has none; so a server that caches by the
// bytes of a request would never hit, and the generator must not spare it that.
//
//	metadata_context.filter_metadata["envoy.filters.http.jwt_authn"].payload = {"sub": "user-00017", ...}
type metadata []byte

// newMetadata encodes claims as Envoy does: numbers are doubles, as in all of
// google.protobuf.Struct. They go through JSON, since that is where Envoy reads them.
func newMetadata(id string, c claims) (metadata, error) {
	content, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	fields := map[string]any{"jti": id}
	if err := json.Unmarshal(content, &fields); err != nil {
		return nil, err
	}
	var out metadata
	for name, value := range fields {
		entry := appendField(nil, entryKey, name)
		out = appendField(out, structFields, appendField(entry, entryValue, encodeValue(value)))
	}
	return out, nil
}

// encodeValue encodes a google.protobuf.Value of what encoding/json makes of a claim.
// The claims here are strings, numbers and lists; anything else would be no value at
// all.
func encodeValue(value any) []byte {
	switch v := value.(type) {
	case string:
		return appendField(nil, valueString, v)
	case float64:
		number := protowire.AppendTag(nil, valueNumber, protowire.Fixed64Type)
		return protowire.AppendFixed64(number, math.Float64bits(v))
	case []any:
		var list []byte
		for _, element := range v {
			list = appendField(list, listValues, encodeValue(element))
		}
		return appendField(nil, valueList, list)
	}
	return nil
}

// append appends a metadata_context with the claims in a random order.
func (m metadata) append(dst []byte, r *rand.Rand) []byte {
	payload := appendShuffled(make([]byte, 0, len(m)), m, r)
	value := appendField(make([]byte, 0, len(m)+16), valueStruct, payload)
	fields := appendEntry(make([]byte, 0, len(m)+32), structFields, "payload", value)
	filters := appendEntry(make([]byte, 0, len(m)+96), metadataFilters, "envoy.filters.http.jwt_authn", fields)
	return appendField(dst, attributesMetadata, filters)
}

// appendShuffled appends encoded fields in a random order, as maps have none. 32 fields
// fit on the stack: a request has 15 to 17 headers, a token 11 claims.
func appendShuffled(dst, encoded []byte, r *rand.Rand) []byte {
	var scratch [32][]byte
	fields := scratch[:0]
	for len(encoded) > 0 {
		_, _, n := protowire.ConsumeField(encoded)
		fields, encoded = append(fields, encoded[:n]), encoded[n:]
	}
	r.Shuffle(len(fields), func(i, k int) { fields[i], fields[k] = fields[k], fields[i] })
	for _, f := range fields {
		dst = append(dst, f...)
	}
	return dst
}
