package rego_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"understudy/rego"
	regocompile "understudy/rego/compile"
)

func TestStructs(t *testing.T) {
	s := &structpb.Struct{}
	if err := protojson.Unmarshal([]byte(`{
		"million": 1000000, "half": 0.5, "tiny": 1e-7, "huge": 1e21, "none": null, "yes": true, "text": "a", "object": {"list": [1234567, {}, []]}
	}`), s); err != nil {
		t.Fatal(err)
	}
	s.Fields["nan"], s.Fields["unset"] = structpb.NewNumberValue(math.NaN()), &structpb.Value{}
	s.Fields["infinite"] = structpb.NewNumberValue(math.Inf(-1))
	want := map[string]any{
		"million": json.Number("1000000"), "half": json.Number("0.5"), "tiny": json.Number("1e-7"), "huge": json.Number("1e+21"),
		"none": nil, "yes": true, "text": "a", "nan": "NaN", "infinite": "-Infinity", "unset": nil,
		"object": map[string]any{"list": []any{json.Number("1234567"), map[string]any{}, []any{}}},
	}
	if diff := cmp.Diff(any(want), regocompile.Plain(structpb.NewStructValue(s))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	data := rego.DataOf(&structpb.Struct{Fields: map[string]*structpb.Value{"d": structpb.NewStructValue(s)}})
	got, err := compile(t, "package p\n\nx := data.d", data, "p/x").Eval(t.Context(), "p/x", rego.Input{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(any(want), got.Value); diff != "" {
		t.Errorf("as data of a policy (-want +got):\n%s", diff)
	}
}
