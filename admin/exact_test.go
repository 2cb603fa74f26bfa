package admin_test

import (
	"encoding/json"
	"math/big"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"understudy/admin"
)

// exactNumbers are numbers, and whether a policy keeps them.
var exactNumbers = map[string]bool{
	"0": true, "-0": true, "0e999999999999999999999": true, "1": true, "-17": true, "0.1": true, "12.50": true, "1e3": true, "1E+22": true, "1e23": true,
	"9007199254740991": true, "9007199254740992": true, "9007199254740994": true, "-9007199254740994": true,
	"9007199254740993": false, "-9007199254740993": false, "9007199254740993.0": false, "9.007199254740993e15": false, "90071992547409930e-1": false,
	// Its double is exact, but is written with fewer digits than it has: Rego reads ….847000.
	"1152921504606846976": false, "1152921504606847000": true,
	"18446744073709551615": false, "18446744073709551616": false, "1e308": true, "1e309": false, "1e400": false, "-1e400": false,
	"1e-400": false, "1e-99999999999999999999": false, "5e-324": true, "0.30000000000000004": true, "0.1234567890123456789": true,
}

func TestNumbersThatAPolicyKeeps(t *testing.T) {
	for number, want := range exactNumbers {
		if got := admin.IsExact(number); got != want {
			t.Errorf("IsExact(%s) is %v", number, got)
		}
	}
}

// TestDataKeepsItsNumbers: REST refuses the text of a number that the policy would not
// have, and what it takes is read back with the same value.
func TestDataKeepsItsNumbers(t *testing.T) {
	edge := newEdge(t)
	rehearsed(t, edge)
	for number, kept := range exactNumbers {
		data := `{"data":{"a b":[{"max":` + number + `}]}}`
		for target, method := range map[string]string{
			"/policies?policyId=x&validateOnly=true": "POST", "/policies/web?updateMask=data&validateOnly=true": "PATCH",
		} {
			a := ask(t, edge, method, edgeLocation+target, data)
			switch {
			case kept && a.status != http.StatusOK:
				t.Errorf("%s %s with %s: %d %s", method, target, number, a.status, a.text)
			case !kept && (a.status != http.StatusBadRequest || !strings.Contains(a.text, `"field":"policy.data[\"a b\"][0].max"`)):
				t.Errorf("%s %s with %s: %d %s", method, target, number, a.status, a.text)
			}
		}
	}
	a := ask(t, edge, "PATCH", edgeLocation+"/policies/web/experiments/e1?updateMask=policy", `{"policy":{"data":{"accounts":[9007199254740993]}}}`)
	if a.status != http.StatusBadRequest || !strings.Contains(a.text, `"field":"policy_experiment.policy.data.accounts[0]"`) {
		t.Errorf("an experiment: %d %s", a.status, a.text)
	}
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,400})(\.[0-9]{1,400})?([eE][-+]?[0-9]{1,3})?$`)

// FuzzExact holds IsExact to arithmetic without bounds: a whole number is exact if what
// Rego reads, the JSON of the double, has the same value.
func FuzzExact(f *testing.F) {
	for number := range exactNumbers {
		f.Add(number)
	}
	f.Fuzz(func(t *testing.T, number string) {
		got := admin.IsExact(number)
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
		err := admin.CheckExact("body", []byte(document))
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
		return !admin.IsExact(v.String())
	}
	return false
}
