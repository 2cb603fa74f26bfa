package admin

import (
	"fmt"
	"slices"
	"testing"
)

// TestWithEditor: editors are all or none, for one that is missing could be the committer.
func TestWithEditor(t *testing.T) {
	var most []string
	for i := range maxPolicyEditors {
		most = append(most, fmt.Sprintf("token:%03d", i))
	}
	for _, c := range []struct {
		name    string
		editors []string
		member  string
		want    []string
	}{
		{"another", []string{"token:b"}, "token:a", []string{"token:a", "token:b"}},
		{"again", []string{"token:a", "token:b"}, "token:b", []string{"token:a", "token:b"}},
		{"nobody in particular", []string{"token:a"}, "", nil},
		{"after somebody unknown", nil, "token:a", nil},
		{"again, of the most there may be", most, most[7], most},
		{"one too many", most, "token:x", nil},
	} {
		before := slices.Clone(c.editors)
		if got := withEditor(c.editors, c.member); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
		if !slices.Equal(c.editors, before) {
			t.Errorf("%s: the editors that were given are %v now, and were %v", c.name, c.editors, before)
		}
	}
}
