package rego

import (
	"google.golang.org/protobuf/types/known/structpb"

	"understudy/rego/compile"
)

// DataOf returns a Struct as the data of a [Source], of which [Compile] makes what
// FromStruct returns, without maps in between.
func DataOf(s *structpb.Struct) map[string]any {
	out := make(map[string]any, len(s.GetFields()))
	for name, value := range s.GetFields() {
		out[name] = value
	}
	return out
}

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
		return compile.Number(v.NumberValue)
	}
	return value.AsInterface()
}
