package access_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"understudy/admin/access"
)

func TestDisplayNames(t *testing.T) {
	for given, want := range map[string]string{
		"ann@example.com":                  "ann@example.com",
		"  Ann   Smith-O'Neil\t":           "Ann Smith-O'Neil",
		"Ångström 王小明 דנה":                 "Ångström 王小明 דנה",
		"":                                 "",
		"()":                               "",
		"ann) by token:root (":             "ann by token root",
		"token:root":                       "token root",
		"\u202egro.elpmaxe@toor\u202c":     "gro.elpmaxe@toor",
		"a\u2066b\u200bc\u00add\ufeff":     "a b c d",
		"ann\nbob\x00\x1b[31mred\x7f":      "ann bob 31mred",
		"<script>alert(1)</script>":        "script alert 1 script",
		"a\u0301\u0301\u0301\u0301\u0301b": "a\u0301\u0301\u0301b",
		"\u0301\u0302ann":                  "ann",
		"\xff\xfeann":                      "ann",
		strings.Repeat("x", 100):           strings.Repeat("x", 64),
		strings.Repeat("王", 100):           strings.Repeat("王", 64),
		strings.Repeat("x", 63) + " y":     strings.Repeat("x", 63),
	} {
		if got := access.DisplayName(given); got != want {
			t.Errorf("%q is shown as %q, want %q", given, got, want)
		}
	}
	if got := (access.Principal{Member: "oidc:https://i#s", Display: "Ann"}).Named(); got != "Ann (oidc:https://i#s)" {
		t.Errorf("got %q", got)
	}
	if (access.Principal{Member: "token:ci"}).Named() != "token:ci" || (access.Principal{Display: "Ann"}).Named() != "" {
		t.Error("a name without a member, or a member without a name, is shown with brackets")
	}
}

// FuzzDisplayName: whatever somebody is called, it is short, printable, in its place, and stays so.
func FuzzDisplayName(f *testing.F) {
	f.Add("Ann\u202e\u0301\u0301\u0301\u0301 (token:x)")
	f.Fuzz(func(t *testing.T, text string) {
		got := access.DisplayName(text)
		if !utf8.ValidString(got) || utf8.RuneCountInString(got) > 64 || strings.ContainsAny(got, ":()<>\"&#\n") || strings.TrimSpace(got) != got {
			t.Errorf("%q is shown as %q", text, got)
		}
		for _, r := range got {
			if !unicode.IsPrint(r) || unicode.Is(unicode.Bidi_Control, r) {
				t.Errorf("%q has %q", text, r)
			}
		}
		if again := access.DisplayName(got); again != got {
			t.Errorf("%q becomes %q", got, again)
		}
	})
}
