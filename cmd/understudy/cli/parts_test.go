package cli

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	adminpb "understudy/admin/v1"
)

// TestChangedParts: a change is named by where it is, never by its content.
func TestChangedParts(t *testing.T) {
	data := func(fields map[string]any) *structpb.Struct {
		s, err := structpb.NewStruct(fields)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	before := &adminpb.Policy{
		Modules: map[string]string{"a.rego": "package a", "b.rego": "package b", "c.rego": "package c"},
		Data:    data(map[string]any{"callers": "x", "roles": "y"}),
	}
	after := &adminpb.Policy{
		Modules: map[string]string{"a.rego": "package a", "b.rego": "package b # fixed", "d.rego": "package d"},
		Data:    data(map[string]any{"callers": "x", "roles": "z"}),
		Rules:   []*adminpb.PolicyRule{{RuleId: "one"}},
	}
	got := changedParts(before, after)
	want := []string{"b.rego", "c.rego was removed", "d.rego was added", "data.roles", "rules"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := changedParts(after, after); len(got) != 0 {
		t.Errorf("got %q, want nothing", got)
	}
}
