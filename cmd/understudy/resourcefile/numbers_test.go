package resourcefile

import (
	"errors"
	"strings"
	"testing"

	"understudy/admin/content"
)

// TestFilesKeepTheirNumbers: `apply` and `test` refuse what `import` refuses, by the
// number as it is written.
func TestFilesKeepTheirNumbers(t *testing.T) {
	for file, want := range map[string]string{
		"data: {max: 9007199254740992, text: '9007199254740993', tag: !!str 9007199254740993}": "",
		"data: {max: 1e23, small: 0.1, hex: 0x10, date: 2026-01-01}":                           "",
		`{"data": {"accounts": [1, 9007199254740993]}}`:                                        "line 1: the number 9007199254740993 at data.accounts[1] is not kept exactly",
		"data:\n  accounts:\n  - -9007199254740993":                                            "line 3: the number -9007199254740993 at data.accounts[0] ",
		"policy:\n  data:\n    max: 18446744073709551616":                                      "line 3: the number 18446744073709551616 at policy.data.max ",
		"data: {max: 1e400}":                            "the number 1e400 at data.max ",
		"data: {max: !!float 1e400}":                    "the number 1e400 at data.max ",
		"data: {max: 9007199254740993.}":                "the number 9007199254740993. at data.max ",
		"data: {max: +9007199254740993}":                "the number +9007199254740993 at data.max ",
		"data: {max: 9_007_199_254_740_993}":            "the number 9007199254740993 at data.max ",
		"data: {max: 0x20000000000001}":                 "the number 9007199254740993 at data.max ",
		"data: {all: &a [9007199254740993], again: *a}": "the number 9007199254740993 at data.all[0] ",
	} {
		_, err := readResource([]byte(file), t.TempDir())
		inexact := (*content.InexactNumber)(nil)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", file, err)
		case want != "" && (!errors.As(err, &inexact) || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: the error is %v, want %s", file, err, want)
		}
	}
}

// FuzzResource reads any file: no panic, and no number in what comes out that a policy
// would change.
func FuzzResource(f *testing.F) {
	for _, seed := range []string{"data: {a: 9007199254740993}", "data: [1e400]", "a: &a [*a]", "? [1]\n: 2", "data: {<<: {a: 0x20000000000001}}", "--- \n- 1\n..."} {
		f.Add(seed)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, file string) {
		encoded, err := readResource([]byte(file), dir)
		if err != nil {
			return
		}
		if err := content.CheckExact("", encoded); err != nil {
			t.Errorf("%q: %v", file, err)
		}
	})
}
