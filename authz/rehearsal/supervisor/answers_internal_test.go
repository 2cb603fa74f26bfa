package supervisor

import (
	"errors"
	"strings"
	"testing"

	"understudy/authz"
	"understudy/authz/rehearsal/wire"
)

// answer is what the process sends.
func answer(t *testing.T, d authz.Decision) []byte {
	t.Helper()
	payload, err := wire.AppendDecided(nil, d)
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

// TestEqualAnswersHaveOneRendering, and each the leaf of its own request.
func TestEqualAnswersHaveOneRendering(t *testing.T) {
	var a answers
	parse := func(reason string, leaf authz.Leaf) authz.Decision {
		d, err := a.parse(answer(t, authz.Decision{Rule: "main", Reason: reason}.WithLeaf(leaf)))
		if err != nil || d.Reason != reason || d.Leaf() != leaf {
			t.Fatalf("got %+v with the leaf %v and %v; want %s and %v", d, d.Leaf(), err, reason, leaf)
		}
		return d
	}
	one, other := parse("no", authz.Leaf{1, 2}), parse("no", authz.Leaf{3, 4})
	if one.Rendering() == nil || one.Rendering() != other.Rendering() {
		t.Error("equal answers have two renderings")
	}
	if none := parse("no", authz.Leaf{}); none.Rendering() != one.Rendering() {
		t.Error("an answer without a leaf has a rendering of its own")
	}
	if different := parse("never", authz.Leaf{1, 2}); different.Rendering() == one.Rendering() {
		t.Error("different answers share a rendering")
	}
	if len(a.known) != 2 {
		t.Errorf("%d answers are kept, want 2", len(a.known))
	}
}

// TestAnswersAreKeptWithinBounds: so many, none that is large, and none that cannot be read.
func TestAnswersAreKeptWithinBounds(t *testing.T) {
	var a answers
	if d, err := a.parse(answer(t, authz.Decision{Reason: strings.Repeat("x", maxAnswer)})); err != nil || len(d.Reason) != maxAnswer || len(a.known) != 0 {
		t.Errorf("of a large answer %d bytes are read with %v, and %d are kept", len(d.Reason), err, len(a.known))
	}
	if _, err := a.parse([]byte{0xff}); !errors.Is(err, wire.ErrForm) || len(a.known) != 0 {
		t.Errorf("of what is no answer %d are kept, with the error %v", len(a.known), err)
	}
	for i := range 2 * maxAnswers {
		d, err := a.parse(answer(t, authz.Decision{HTTPStatus: 200 + i}))
		if err != nil || d.HTTPStatus != 200+i {
			t.Fatalf("got %+v and %v", d, err)
		}
	}
	if len(a.known) != maxAnswers {
		t.Errorf("%d answers are kept, want %d", len(a.known), maxAnswers)
	}
}
