package checktest

import (
	"encoding/json"
	"math/big"
	"slices"

	"github.com/google/go-cmp/cmp"
)

// Difference shows how two documents differ, empty if they do not. Numbers are equal if
// their values are, since 1.0 and 1 are one number to a policy. It takes time in
// proportion to the size of the documents: that of cmp.Diff doubles with each level of
// nesting.
func Difference(want, got any) string {
	if sameDocument(want, got) {
		return ""
	}
	x, _ := json.MarshalIndent(want, "", " ")
	y, _ := json.MarshalIndent(got, "", " ")
	return cmp.Diff(string(x), string(y))
}

// sameDocument compares documents, with numbers by value, however they are written.
func sameDocument(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for name, value := range x {
			if other, ok := y[name]; !ok || !sameDocument(value, other) {
				return false
			}
		}
		return true
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, sameDocument)
	case json.Number:
		y, ok := b.(json.Number)
		return ok && sameNumber(x, y)
	}
	return a == b
}

// sameNumber compares with 500 bits: far more than any number that these tests write.
func sameNumber(a, b json.Number) bool {
	x, okX := new(big.Float).SetPrec(500).SetString(string(a))
	y, okY := new(big.Float).SetPrec(500).SetString(string(b))
	return okX && okY && x.Cmp(y) == 0
}
