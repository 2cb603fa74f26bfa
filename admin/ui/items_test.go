package ui_test

import (
	"fmt"
	"strings"
	"testing"

	adminpb "understudy/admin/v1"
	evidencepb "understudy/authz/evidence/v1"
)

// granting is a policy by roles, users and hours.
func (s *site) granting(hour, more string, data map[string]any) *adminpb.Policy {
	p := newPolicy("package envoy.authz\n\nallow if {\n\tinput.need in data.roles[input.role]\n\tdata.users[input.user]\n\tearly\n" + more + "}\n\nearly if input.hour < " + hour + "\n")
	p.Name, p.Data = policy, document(s, data)
	return p
}

// users are so many rows of a table.
func users(n int, role string) map[string]any {
	rows := make(map[string]any)
	for i := range n {
		rows[fmt.Sprintf("u%d", i)] = role
	}
	return rows
}

// TestItems: the page says in what two policies differ, item by item, those first that no request has
// shown, with what was shown of each, and marks the lines.
func TestItems(t *testing.T) {
	s := newSite(t)
	live := s.granting("22", "", map[string]any{"roles": map[string]any{"auditor": []any{"read"}}, "users": users(20, "a")})
	candidate := s.granting("21", "\tinput.x == 1\n", map[string]any{"roles": map[string]any{"auditor": []any{"read", "settings.write"}}, "users": users(20, "b")})
	if _, err := s.server.CreatePolicy(t.Context(), &adminpb.CreatePolicyRequest{Parent: location, PolicyId: "shop", Policy: live}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.server.CreatePolicyExperiment(t.Context(), &adminpb.CreatePolicyExperimentRequest{
		Parent: policy, PolicyExperimentId: "tighter", PolicyExperiment: &adminpb.PolicyExperiment{Policy: candidate},
	}); err != nil {
		t.Fatal(err)
	}
	s.start()
	s.beat("n1", 0, policy)
	// The list has the condition, the literal, the grant and the users.
	s.publish("n1", &evidencepb.Pair{
		Counts: &evidencepb.Counts{BothAllow: 40}, Items: []*evidencepb.Items{{Shown: []int32{12, 0, 0, 1, 1, 1}, Untrue: []int32{0}}},
	})
	checkPage(t, "items", s.get("/ui/"+trial))
	page := textOf(t, s.page(trial))
	for _, want := range []string{
		"No difference in 40 requests", "20 of 23 items were not seen",
		"unseen condition, added shop.rego:7 data.envoy.authz.allow none input.x == 1 Not seen false, true for 12 examined requests",
		"unseen literal, changed shop.rego:10 data.envoy.authz.early input.hour < 22 input.hour < 21 No request is decided otherwise by it",
		`unseen data.roles.auditor none "settings.write" No request needed it`,
		"unseen data.users several several 20 changed, 3 seen",
		"input.x == 1 ○ unseen", "early if input.hour < 2 1 ○ unseen",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q:\n%s", want, page)
		}
	}
	if strings.Contains(s.page(trial), `class="verdict good"`) {
		t.Error("the verdict is green")
	}
}
