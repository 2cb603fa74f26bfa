package terminal

import "testing"

func TestColumns(t *testing.T) {
	for text, want := range map[string]int{"": 0, "abc": 3, "→ …": 3, "注文": 4, "e\u0301": 1} {
		if got := Columns(text); got != want {
			t.Errorf("Columns(%q): got %d, want %d", text, got, want)
		}
	}
	for _, c := range []struct {
		text    string
		columns int
		want    string
	}{{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"注文書", 4, "注…"}, {"abc", 0, ""}, {"abc", 1, "…"}} {
		if got := Cut(c.text, c.columns); got != c.want {
			t.Errorf("Cut(%q, %d): got %q, want %q", c.text, c.columns, got, c.want)
		}
	}
	if got, want := Line("a\nb\x1b[2J"), `a\nb\x1b[2J`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
