package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestAPromotionIsWhatWasShown: it shows what differs and asks; what has changed until the
// answer, on either side or of the way between them, is not promoted.
func TestAPromotionIsWhatWasShown(t *testing.T) {
	t.Parallel()
	const next = "projects/p1/locations/l2"
	o, nothing := operator{t, startServer(t, nil)}, func() {}
	rename := func(policy, name string) func() {
		return func() {
			if code, content := o.r.call(t, "admin", "PATCH", "/v1/"+policy+"?updateMask=display_name", `{"displayName":"`+name+`"}`); code != 200 {
				t.Errorf("renaming answered %d: %s", code, content)
			}
		}
	}
	nameThere := func() string {
		var policy struct{ DisplayName string }
		_, content := o.r.call(t, "admin", "GET", "/v1/"+next+"/policies/shop", "")
		if err := json.Unmarshal([]byte(content), &policy); err != nil {
			t.Fatal(err)
		}
		return policy.DisplayName
	}
	o.do("next", "l2")
	o.do("apply", "shop", "-f", "../../deploy/examples/policy.yaml")
	for _, step := range []struct {
		answer    string
		meanwhile func()
		code      int
		says      []string
		live      string
	}{
		{"y", nothing, 0, []string{location + " → " + next + "\n", "\nshop: none → ", "\n+package envoy.authz\n", "Promote 1 policy to l2? [y/N] "}, "Shop"},
		{"n", rename(location+"/policies/shop", "New"), 1, []string{"nothing was promoted"}, "Shop"},
		{"y", rename(next+"/policies/shop", "Hot fix"), 1, []string{"nothing was promoted, since something has changed after it was shown", "promote again"}, "Hot fix"},
		{"y", rename(location+"/policies/shop", "Newer"), 1, []string{"nothing was promoted, since something has changed after it was shown"}, "Hot fix"},
		{"y", func() { o.do("next", "l3") }, 1, []string{"Its next_location is not '" + next + "'"}, "Hot fix"},
		{"y", func() { o.do("next", "l2") }, 1, []string{location + " → projects/p1/locations/l3\n"}, "Hot fix"},
		{"y", nothing, 0, []string{`-"Hot fix"`, `+"Newer"`}, "Newer"},
	} {
		if step.answer == "n" {
			step.meanwhile()
			step.meanwhile = nothing
		}
		code, stderr := o.answer(step.answer, step.meanwhile, "promote", "shop")
		for _, want := range step.says {
			if code != step.code || !strings.Contains(stderr, want) {
				t.Errorf("got %d and\n%s\nwant %d and %q", code, stderr, step.code, want)
			}
		}
		if got := nameThere(); got != step.live {
			t.Errorf("there, %q is live; want %q", got, step.live)
		}
	}
}
