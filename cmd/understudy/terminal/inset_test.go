package terminal

import (
	"bytes"
	"fmt"
	"testing"
)

func TestInset(t *testing.T) {
	var out bytes.Buffer
	i := &Inset{To: &out, Indent: 3, Columns: 77, Lines: 24}
	fmt.Fprint(i, "a\n\nb")
	fmt.Fprint(i, "c\nd\n")
	if got, want := out.String(), "   a\n\n   bc\n   d\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if columns, lines := Size(i); columns != 77 || lines != 24 {
		t.Errorf("got %dx%d, want 77x24", columns, lines)
	}
	if PaletteFor(i) {
		t.Error("a buffer has colours, want none")
	}
}

// TestRedraw: what is drawn again begins where it began before, and nothing of it is left.
func TestRedraw(t *testing.T) {
	var out bytes.Buffer
	r := Redraw{To: &out}
	r.Draw([]string{"one", "two"})
	r.Draw([]string{"three"})
	want := "\rone\x1b[K\n\rtwo\x1b[K\n\x1b[J" + "\x1b[2A\rthree\x1b[K\n\x1b[J"
	if got := out.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
