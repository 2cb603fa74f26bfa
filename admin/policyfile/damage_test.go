package policyfile_test

import (
	"net/http"
	"strings"
	"testing"

	"understudy/admin"
	"understudy/admin/policyfile"
)

// spoil puts bytes that are no message in the place of a record.
func (s *server) spoil(key admin.Key) {
	s.Helper()
	records, err := s.store.Get(s.Context(), key)
	if err != nil || records[0].Key == "" {
		s.Fatalf("%s is %+v, %v", key, records, err)
	}
	if _, err := s.store.Commit(s.Context(), admin.Txn{ID: "spoil " + string(key) + s.Name(), Project: s.project, Writes: []admin.Write{
		admin.Put{Key: key, Value: []byte("\x0a\xff\x01nonsense"), Etag: records[0].Etag},
	}}); err != nil {
		s.Fatal(err)
	}
}

// TestDamage: a policy or a document that cannot be read is in the way of no list, no other
// policy, and of nothing that replaces or removes it.
func TestDamage(t *testing.T) {
	for _, b := range backends(t) {
		t.Run(b.name, func(t *testing.T) {
			s := serve(t, b.open(t), "damage-"+b.name, true)
			lock := func(revision, policy string) string {
				return `{"revision_id":"` + revision + `","name":"` + policy + `","run_list":["recipe[a::allow]"],"cookbook_locks":{}}`
			}
			expect := func(method, path, body string, status int, want ...string) {
				t.Helper()
				got := s.call(method, path, body)
				for _, w := range append(want, "") {
					if got.status != status || !strings.Contains(string(got.body), w) {
						t.Errorf("%s %s is %d %s; want %d with %s", method, path, got.status, got.body, status, w)
					}
				}
			}
			expect("PUT", "/policy_groups/g/policies/good", lock("aa", "good"), http.StatusCreated)
			expect("PUT", "/policy_groups/g/policies/bad", lock("bb", "bad"), http.StatusCreated)
			bad := admin.Key("projects/" + s.project + "/locations/g/policies/bad")
			s.spoil(bad)
			expect("GET", "/policy_groups/g/policies/bad", "", http.StatusInternalServerError)
			expect("GET", "/policy_groups", "", http.StatusOK, `"good"`)
			expect("GET", "/policy_groups/g", "", http.StatusOK, `"good"`)
			expect("GET", "/policies", "", http.StatusOK, `"good"`, `"bb"`)
			expect("GET", "/policies/bad", "", http.StatusOK, `"bb"`)
			// A push replaces it; one without rules only on purpose, for it may have had some.
			expect("PUT", "/policy_groups/g/policies/bad", lock("cc", "bad"), http.StatusConflict)
			expect("PUT", "/policy_groups/g/policies/bad?"+policyfile.AllowNoOp+"=true", lock("cc", "bad"), http.StatusOK)
			expect("GET", "/policy_groups/g/policies/bad", "", http.StatusOK, `"cc"`)
			s.spoil(bad)
			expect("DELETE", "/policy_groups/g/policies/bad", "", http.StatusOK)
			expect("GET", "/policy_groups/g/policies/bad", "", http.StatusNotFound)
			s.spoil(admin.Key("projects/" + s.project + "/locations/global/policyfiles/bad/locks/bb"))
			expect("DELETE", "/policies/bad/revisions/bb", "", http.StatusOK)
			expect("GET", "/policies/bad/revisions/bb", "", http.StatusNotFound)
			expect("PUT", "/policy_groups/g/policies/bad", lock("cc", "bad"), http.StatusCreated)
			s.spoil(bad)
			expect("DELETE", "/policy_groups/g", "", http.StatusOK)
			expect("GET", "/policy_groups/g", "", http.StatusNotFound)
		})
	}
}
