package extauthz

import (
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	"understudy/authz"
)

// The keys of the dynamic metadata that are not the policy's.
const (
	MetadataDecisionID = "decision_id"
	MetadataFailure    = "failure"
	metadataReason     = "reason"
)

// What cannot be sent, in the words of a decision's reason.
const (
	errNumber = unsendable("The dynamic metadata has a number that is out of range.")
	errValue  = unsendable("The dynamic metadata has a value that is not JSON.")
	errDepth  = unsendable("The dynamic metadata is nested more than 30 levels deep.")
)

// maxDepth bounds the nesting of metadata, in objects and arrays. Envoy reads 100
// messages within one another, of which an object takes three; a response that it
// cannot read is an error, which it may turn into an allow.
const maxDepth = 30

// metadataFor returns the dynamic metadata of a decision. Our own keys are set last: a
// policy cannot forge a decision ID, by which logs and records are found.
func metadataFor(id string, d authz.Decision) (*structpb.Struct, error) {
	out, err := structOf(d.Metadata, 1)
	if err != nil {
		return nil, err
	}
	if d.Failure != "" {
		out.Fields[MetadataFailure] = structpb.NewStringValue(string(d.Failure))
	}
	if d.Failure != "" || d.Default {
		out.Fields[metadataReason] = structpb.NewStringValue(validText(d.Reason))
	}
	out.Fields[MetadataDecisionID] = structpb.NewStringValue(id)
	return out, nil
}

// structOf turns an object into a Struct. Numbers become doubles, for Envoy knows
// no others; one that is out of their range is an error. The object is depth
// levels deep in the metadata.
func structOf(object map[string]any, depth int) (*structpb.Struct, error) {
	if depth > maxDepth {
		return nil, errDepth
	}
	fields := make(map[string]*structpb.Value, len(object)+1)
	for name, value := range object {
		v, err := valueOf(value, depth)
		if err != nil {
			return nil, err
		}
		fields[validText(name)] = v
	}
	return &structpb.Struct{Fields: fields}, nil
}

// valueOf is structpb.NewValue for the types that policies give, with numbers as
// json.Number, and with text made valid.
func valueOf(value any, depth int) (*structpb.Value, error) {
	switch v := value.(type) {
	case nil:
		return structpb.NewNullValue(), nil
	case bool:
		return structpb.NewBoolValue(v), nil
	case string:
		return structpb.NewStringValue(validText(v)), nil
	case json.Number:
		number, err := v.Float64()
		if err != nil {
			return nil, errNumber
		}
		return structpb.NewNumberValue(number), nil
	case map[string]any:
		s, err := structOf(v, depth+1)
		if err != nil {
			return nil, err
		}
		return structpb.NewStructValue(s), nil
	case []any:
		return listOf(v, depth+1)
	}
	return nil, errValue
}

func listOf(values []any, depth int) (*structpb.Value, error) {
	if depth > maxDepth {
		return nil, errDepth
	}
	out := make([]*structpb.Value, len(values))
	for i, value := range values {
		v, err := valueOf(value, depth)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return structpb.NewListValue(&structpb.ListValue{Values: out}), nil
}

// validText makes text UTF-8. A message with other text cannot be marshalled, and
// the gRPC error of that could become an allow.
func validText(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
