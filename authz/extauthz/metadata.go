package extauthz

import (
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	"understudy/authz"
)

// The keys of the dynamic metadata that are not the policy's.
const (
	metadataDecisionID = "decision_id"
	metadataFailure    = "failure"
	metadataReason     = "reason"
)

// What cannot be sent, in the words of a decision's reason.
const (
	errNumber = unsendable("The dynamic metadata has a number that is out of range.")
	errValue  = unsendable("The dynamic metadata has a value that is not JSON.")
)

// metadataFor returns the dynamic metadata of a decision.
func metadataFor(id string, d authz.Decision) (*structpb.Struct, error) {
	out, err := structOf(d.Metadata)
	if err != nil {
		return nil, err
	}
	if d.Failure != "" {
		out.Fields[metadataFailure] = structpb.NewStringValue(string(d.Failure))
		out.Fields[metadataReason] = structpb.NewStringValue(validText(d.Reason))
	}
	out.Fields[metadataDecisionID] = structpb.NewStringValue(id)
	return out, nil
}

// structOf turns an object into a Struct. Numbers become doubles, for Envoy knows
// no others; one that is out of their range is an error.
func structOf(object map[string]any) (*structpb.Struct, error) {
	fields := make(map[string]*structpb.Value, len(object)+1)
	for name, value := range object {
		v, err := valueOf(value)
		if err != nil {
			return nil, err
		}
		fields[validText(name)] = v
	}
	return &structpb.Struct{Fields: fields}, nil
}

func valueOf(value any) (*structpb.Value, error) {
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
		s, err := structOf(v)
		if err != nil {
			return nil, err
		}
		return structpb.NewStructValue(s), nil
	case []any:
		return listOf(v)
	}
	return nil, errValue
}

func listOf(values []any) (*structpb.Value, error) {
	out := make([]*structpb.Value, len(values))
	for i, value := range values {
		v, err := valueOf(value)
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
