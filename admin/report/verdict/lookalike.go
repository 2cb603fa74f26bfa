package verdict

import (
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	adminpb "understudy/admin/v1"
)

// Sides are the texts of an item in the live policy and in the experiment, on one line. Where both look alike,
// such as é in one piece and in two, what differs in them is written with escapes.
//
// A change of a literal that nobody can see is the best hiding place of all: an е that is Cyrillic in the
// name of a role gives that role to somebody else. So the escapes are written exactly where such texts
// differ, and nowhere else.
func Sides(item *adminpb.Report_Item) (live, candidate string) {
	live, candidate = item.GetPolicyText(), item.GetExperimentText()
	if live == "" || candidate == "" || live == candidate || !lookAlike([]rune(folded(live)), []rune(folded(candidate))) {
		return onOneLine(live), onOneLine(candidate)
	}
	a, b := []rune(live), []rune(candidate)
	before := 0
	for before < min(len(a), len(b)) && a[before] == b[before] {
		before++
	}
	after := 0
	for after < min(len(a), len(b))-before && a[len(a)-1-after] == b[len(b)-1-after] {
		after++
	}
	return escaped(a, before, after), escaped(b, before, after)
}

// onOneLine is a text without what breaks lines.
func onOneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// folded is a text without what cannot be seen of it: how its characters are composed, which width they have,
// and what has none.
func folded(text string) string {
	seen := strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cf, unicode.Cc, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) && !unicode.IsSpace(r) {
			return -1
		}
		return r
	}, norm.NFKC.String(text))
	return onOneLine(seen)
}

// lookAlike reports whether two folded texts are the same, or differ in letters alone that are Latin in one of
// them, and in the other of a script that has letters of the same shape.
func lookAlike(a, b []rune) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] && !mistaken(a[i], b[i]) && !mistaken(b[i], a[i]) {
			return false
		}
	}
	return true
}

// mistaken reports whether a character may be taken for a Latin one.
//
// The list of scripts is that of the confusables in Unicode's UTS 39 that have letters like Latin ones.
func mistaken(r, latin rune) bool { return unicode.Is(unicode.Latin, latin) && hasLatinShapes(r) }

// hasLatinShapes reports whether a character is of a script that has letters of the shape of Latin ones.
func hasLatinShapes(r rune) bool {
	return unicode.In(r, unicode.Cyrillic, unicode.Greek, unicode.Armenian, unicode.Cherokee, unicode.Coptic, unicode.Lisu)
}

// escaped writes a text with escapes between what comes before and after.
func escaped(text []rune, before, after int) string {
	var out strings.Builder
	for _, r := range text[before : len(text)-after] {
		switch {
		case r > ' ' && r < unicode.MaxASCII:
			out.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&out, `\U%08x`, r)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return onOneLine(string(text[:before]) + out.String() + string(text[len(text)-after:]))
}
