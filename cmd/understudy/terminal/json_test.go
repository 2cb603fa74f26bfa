package terminal_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"understudy/cmd/understudy/terminal"
)

func TestWriteJSON(t *testing.T) {
	m, err := structpb.NewStruct(map[string]any{"need": "requests>=1", "of": []any{true, map[string]any{}}})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := terminal.WriteJSON(&out, m); err != nil {
		t.Fatal(err)
	}
	with := strings.Builder{}
	if err := terminal.WriteJSONWith(&with, m, terminal.Field{Name: "change", Value: "updated"}); err != nil {
		t.Fatal(err)
	}
	if got, want := with.String(), strings.Replace(out.String(), "{\n", "{\n  \"change\": \"updated\",\n", 1); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	with.Reset()
	if err := terminal.WriteJSONWith(&with, &structpb.Struct{}, terminal.Field{Name: "change", Value: "updated"}); err != nil || with.String() != "{\n  \"change\": \"updated\"\n}\n" {
		t.Errorf("of an empty message: %q, %v", with.String(), err)
	}
	if got, want := out.String(), "{\n  \"need\": \"requests>=1\",\n  \"of\": [\n    true,\n    {}\n  ]\n}\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
