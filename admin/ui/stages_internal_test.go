package ui

import (
	"slices"
	"testing"
)

// TestOrderOfStages: chains begin with their first location, and a circle is shown too.
func TestOrderOfStages(t *testing.T) {
	got := ordered([]string{"prod", "staging", "x", "y", "dev", "lone"}, map[string]string{"dev": "staging", "staging": "prod", "x": "y", "y": "x"})
	if want := []string{"dev", "staging", "x", "y"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
