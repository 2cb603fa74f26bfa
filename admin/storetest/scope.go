package storetest

import (
	"understudy/admin"
	"understudy/authz"
)

// testScope follows some of the policies of a location. What a sidecar does not follow costs it
// nothing, and yet it comes to the location's head: operations wait until each sidecar is there.
func testScope(s *subject) {
	s.change([]string{"a", "team-1", "team-2", "team", "b", "ab"},
		admin.Put{Key: s.policy("a"), Value: policy("A")},
		admin.Put{Key: s.experiment("a", "e"), Value: experiment("Ae", active)},
		admin.Put{Key: s.policy("team-1"), Value: policy("T1")},
		admin.Put{Key: s.experiment("team-1", "e"), Value: experiment("T1e", active)},
		admin.Put{Key: s.policy("team-2"), Value: deletedPolicy()},
		admin.Put{Key: s.policy("team"), Value: policy("no")},
		admin.Put{Key: s.policy("b"), Value: policy("no")},
		admin.Put{Key: s.experiment("b", "e"), Value: experiment("no", active)},
		admin.Put{Key: s.policy("ab"), Value: policy("no")},
	)
	all := s.load()
	for _, c := range []struct {
		of   authz.Selection
		want map[string]string
	}{
		{authz.Selection{"a", "team-*"}, map[string]string{"a": "A Ae", "team-1": "T1 T1e", "team-2": "none"}},
		{authz.Selection{"team-1", "team-*", "team-1*"}, map[string]string{"team-1": "T1 T1e", "team-2": "none"}},
		{authz.Selection{"none"}, map[string]string{}},
		{nil, states(all)},
	} {
		of := authz.Scope{Location: s.location, Policies: c.of}
		update, err := s.Load(s.Context(), of)
		if err != nil {
			s.Fatal(err)
		}
		s.checkStates(c.want, update)
		if update.Cursor != all.Cursor {
			s.Errorf("%v: the cursor is %+v, want %+v", c.of, update.Cursor, all.Cursor)
		}
		followed, err := s.Next(s.Context(), of, authz.Cursor{})
		if err != nil {
			s.Fatal(err)
		}
		s.checkStates(c.want, followed)
	}
	last := s.change([]string{"b"}, admin.Put{Key: s.policy("b"), Value: policy("B2")})
	update, err := s.Next(s.Context(), authz.Scope{Location: s.location, Policies: authz.Selection{"a"}}, all.Cursor)
	if err != nil || len(update.Policies) > 0 || update.Cursor.Sequence != last.Sequence {
		s.Errorf("a change of another policy gives %+v, %v; want the cursor of %d", update, err, last.Sequence)
	}
}
