//go:build linux && nightly

package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// slowRules allow as ordersRules do, but for order 7, and take their time for each order.
const slowRules = `package envoy.authz

default allow := {"allowed": false, "http_status": 403, "reason": "no rule allows it"}

allow if {
	input.parsed_path[0] == "orders"
	not endswith(input.parsed_path[1], "7")
	count([1 | some i in numbers.range(1, 200); some j in numbers.range(1, 200); i * j == to_number(input.parsed_path[1])]) >= 0
}
`

// TestOverloadIsNoEvidence: of 3,000 requests at once, an experiment that takes its time is compared with a part.
// No request is forgotten, and nothing is ready that left out so many.
func TestOverloadIsNoEvidence(t *testing.T) {
	t.Parallel()
	p := previews(t, ordersRules, slowRules, "--preview-queue", "50")
	var all []question
	for i := range 3000 {
		all = append(all, question{method: "GET", path: fmt.Sprintf("/orders/%d", 1000+i), service: fmt.Sprint("web-", i%20)})
	}
	p.asks(t, all)
	type overloaded struct {
		RequestCount, DroppedCount json.Number
		Drops                      []struct{ Reason string }
	}
	r, _ := pollReport(t, p, policies+"/default/experiments/next", "3,000 requests are accounted for, and none waits", func(r overloaded) bool {
		for _, d := range r.Drops {
			if d.Reason == "waiting" {
				return false
			}
		}
		compared, _ := r.RequestCount.Int64()
		dropped, _ := r.DroppedCount.Int64()
		return compared+dropped == 3000
	})
	if dropped, _ := r.DroppedCount.Int64(); dropped < 300 {
		t.Fatalf("%d requests were not compared: that is no overload", dropped)
	}
	text, code := p.command(t, "report", "default/next", "--require", "newly-denied<=90%,newly-allowed<=90%,failed<=90%")
	if code != 1 {
		t.Errorf("the report ends with %d, want 1", code)
	}
	says(t, text, "were not compared")
	if strings.Contains(text, "Ready") {
		t.Errorf("it says that it is ready:\n%s", text)
	}
}
