package rest_test

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
)

// TestDataKeepsItsNumbers: REST refuses the text of a number that the policy would not
// have, and what it takes is read back with the same value.
func TestDataKeepsItsNumbers(t *testing.T) {
	edge := newEdge(t)
	rehearsed(t, edge)
	text, err := os.ReadFile("../content/testdata/numbers.json")
	if err != nil {
		t.Fatal(err)
	}
	var numbers map[string]bool
	if err := json.Unmarshal(text, &numbers); err != nil || len(numbers) == 0 {
		t.Fatalf("the numbers cannot be read: %v", err)
	}
	for number, kept := range numbers {
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
