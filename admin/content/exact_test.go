package content_test

import (
	"encoding/json"
	"math/big"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"understudy/admin/content"
)

// exactNumbers returns numbers, and whether a policy keeps them. The double of
// 1152921504606846976 is exact, but is written with fewer digits than it has: Rego reads
// ….847000.
func exactNumbers(t testing.TB) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("testdata/numbers.json")
	if err != nil {
		t.Fatal(err)
	}
	var numbers map[string]bool
	if err := json.Unmarshal(text, &numbers); err != nil || len(numbers) == 0 {
		t.Fatalf("the numbers cannot be read: %v", err)
	}
	return numbers
}

func TestNumbersThatAPolicyKeeps(t *testing.T) {
	for number, want := range exactNumbers(t) {
		if got := content.IsExact(number); got != want {
			t.Errorf("IsExact(%s) is %v", number, got)
		}
	}
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,400})(\.[0-9]{1,400})?([eE][-+]?[0-9]{1,3})?$`)

// FuzzExact holds IsExact to arithmetic without bounds: a whole number is exact if what
// Rego reads, the JSON of the double, has the same value.
func FuzzExact(f *testing.F) {
	for number := range exactNumbers(f) {
		f.Add(number)
	}
	f.Fuzz(func(t *testing.T, number string) {
		got := content.IsExact(number)
		if !jsonNumber.MatchString(number) {
			return
		}
		written, _ := new(big.Rat).SetString(number)
		double, err := strconv.ParseFloat(number, 64)
		if err != nil || double == 0 && written.Sign() != 0 {
			if got {
				t.Errorf("%s is exact, but a double has no such number", number)
			}
			return
		}
		text, err := json.Marshal(double)
		if err != nil {
			t.Fatal(err)
		}
		read, _ := new(big.Rat).SetString(string(text))
		if want := !written.IsInt() || read.Cmp(written) == 0; got != want {
			t.Errorf("IsExact(%s) is %v, and Rego reads %s", number, got, text)
		}
	})
}

// FuzzCheckExact: no document breaks the walk, and none that has a number which
// IsExact refuses is taken.
func FuzzCheckExact(f *testing.F) {
	for _, seed := range []string{`{"a":[1,{"b":9007199254740993}]}`, `[`, `{"a":1e400}`, `"1e400"`, `1e400`, `{"9007199254740993":""}`, `[[],{},[1]] 1e400`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, document string) {
		err := content.CheckExact("body", []byte(document))
		if !json.Valid([]byte(document)) {
			return
		}
		var all any
		decoder := json.NewDecoder(strings.NewReader(document))
		decoder.UseNumber()
		if decoder.Decode(&all) != nil {
			return
		}
		if hasInexact(all) && err == nil {
			t.Errorf("%s is taken", document)
		}
		if err != nil && !strings.Contains(err.Error(), " at body") {
			t.Errorf("%s: %v", document, err)
		}
	})
}

func hasInexact(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, element := range v {
			if hasInexact(element) {
				return true
			}
		}
	case []any:
		for _, element := range v {
			if hasInexact(element) {
				return true
			}
		}
	case json.Number:
		return !content.IsExact(v.String())
	}
	return false
}
