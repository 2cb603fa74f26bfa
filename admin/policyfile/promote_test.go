package policyfile_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"understudy/admin"
)

// interrupted does something once, before the next commit to a store: after what that depends on
// was read.
type interrupted struct {
	stores
	before func()
}

func (i *interrupted) Commit(ctx context.Context, txn admin.Txn) (int64, error) {
	if before := i.before; before != nil {
		i.before = nil
		before()
	}
	return i.stores.Commit(ctx, txn)
}

// TestAllIsWhatIsActiveAtTheMoment: a promotion of all, or of names, goes where the group leads
// when it is made, with what is active then, also if that came between; and who may not promote
// that promotes nothing.
func TestAllIsWhatIsActiveAtTheMoment(t *testing.T) {
	for n, b := range backends(t) {
		t.Run(b.name, func(t *testing.T) {
			store, g := &interrupted{stores: b.open(t)}, make(grants)
			s := guarded(t, store, fmt.Sprintf("p-moment-%d", n), g)
			for _, on := range []string{"dev", "qa", "global/policies/web"} {
				g[fmt.Sprintf("understudy.policies.promote on projects/%s/locations/%s", s.project, on)] = true
			}
			promote := func(who, body string, status int) {
				t.Helper()
				if a := s.as(who, "POST", "/policy_groups/dev/promote", body); a.status != status {
					t.Errorf("the promotion of %s by %s answered %d: %s; want %d", body, who, a.status, a.body, status)
				}
			}
			active := func(group string, want ...string) {
				t.Helper()
				a := string(s.as("owner", "GET", "/policy_groups/"+group, "").body)
				for _, id := range want {
					if !strings.Contains(a, id) {
						t.Errorf("%s has %s, want it to have %s", group, a, id)
					}
				}
				if len(want) == 0 && strings.Contains(a, "revision_id") {
					t.Errorf("%s has %s, want it to have nothing", group, a)
				}
			}
			put := func(path, body string) func() {
				return func() {
					if a := s.as("owner", "PUT", path, body); a.status/100 != 2 {
						t.Errorf("PUT %s: %d %s", path, a.status, a.body)
					}
				}
			}
			second, late := seal(t, `{"name":"web","run_list":[],"cookbook_locks":{},"default_attributes":{"n":2}}`), seal(t, testLock("late"))

			// tester may not promote what came between.
			store.before = put("/policy_groups/dev/policies/late", late)
			promote("tester", "{}", 403)
			active("qa")
			// The same for the group that it would go to by now.
			store.before = put("/policy_groups/dev", `{"next_group_name":"prod"}`)
			promote("tester", `{"policy_names":["web"]}`, 403)
			active("qa")
			active("prod")

			store.before = put("/policy_groups/dev", `{"next_group_name":"qa"}`)
			promote("owner", `{"policy_names":["web"]}`, 200)
			active("prod")
			store.before = put("/policy_groups/dev/policies/web", second)
			promote("owner", "{}", 200)
			active("qa", idOf(t, second), idOf(t, late))
			put("/policy_groups/dev/policies/web", seal(t, testLock("web")))()
			store.before = put("/policy_groups/dev/policies/latest", seal(t, testLock("latest")))
			promote("owner", "{}", 200)
			active("qa", idOf(t, seal(t, testLock("latest"))))
		})
	}
}
