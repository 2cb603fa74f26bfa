package rego

import (
	"encoding/json"
	"math"

	"google.golang.org/protobuf/types/known/structpb"
)

// FromStruct returns a Struct as the plain JSON that it stands for, with each number
// as JSON writes it. Structpb's own AsMap gives doubles, which OPA writes as 1e+06
// where the author wrote 1000000; then sprintf shows that and format_int fails.
func FromStruct(s *structpb.Struct) map[string]any {
	out := make(map[string]any, len(s.GetFields()))
	for name, value := range s.GetFields() {
		out[name] = fromValue(value)
	}
	return out
}

func fromValue(value *structpb.Value) any {
	switch v := value.GetKind().(type) {
	case *structpb.Value_StructValue:
		return FromStruct(v.StructValue)
	case *structpb.Value_ListValue:
		out := make([]any, len(v.ListValue.GetValues()))
		for i, element := range v.ListValue.GetValues() {
			out[i] = fromValue(element)
		}
		return out
	case *structpb.Value_NumberValue:
		return fromNumber(v.NumberValue)
	}
	return value.AsInterface()
}

// fromNumber returns a json.Number. For what JSON has no number for, it is the text
// that protojson has.
func fromNumber(number float64) any {
	if math.IsNaN(number) || math.IsInf(number, 0) {
		return structpb.NewNumberValue(number).AsInterface()
	}
	text, err := json.Marshal(number)
	if err != nil {
		return number
	}
	return json.Number(text)
}
