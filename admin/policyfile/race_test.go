package policyfile_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"understudy/admin"
	adminpb "understudy/admin/v1"
)

// version is the n-th lock of a policy.
func version(t *testing.T, policy string, n int) string {
	return seal(t, fmt.Sprintf(
		`{"name":%q,"run_list":["recipe[x::default]"],"cookbook_locks":{"x":{"version":"1.0.0","identifier":"v%d"}}}`, policy, n))
}

// TestPromotionsAmongChanges promotes two policies that are changed one after the
// other, web first, while a third is committed: what arrives is always what was live
// at one instant, so web is the same version as api or the one after it.
func TestPromotionsAmongChanges(t *testing.T) {
	const rounds = 25
	for _, b := range backends(t) {
		t.Run(b.name, func(t *testing.T) {
			s := serve(t, b.open(t), "p-promotions", false)
			versions := map[string]int{} // :: revision ID → version
			locks := map[string][]string{}
			for _, policy := range []string{"web", "api"} {
				for n := range rounds {
					lock := version(t, policy, n)
					versions[idOf(t, lock)] = n
					locks[policy] = append(locks[policy], lock)
				}
				s.must("PUT", "/policy_groups/dev/policies/"+policy, locks[policy][0])
			}
			s.must("PUT", "/policy_groups/dev/policies/gate", version(t, "gate", 0))
			s.must("PUT", "/policy_groups/dev", `{"name":"dev","next_group_name":"qa"}`)
			s.must("POST", "/policy_groups/dev/promote", "")

			done := make(chan struct{})
			var changing, watching sync.WaitGroup
			changing.Go(func() {
				for n := 1; n < rounds; n++ {
					s.must("PUT", "/policy_groups/dev/policies/web", locks["web"][n])
					s.must("PUT", "/policy_groups/dev/policies/api", locks["api"][n])
				}
			})
			changing.Go(func() {
				for n := range rounds {
					s.commitTo("gate", n)
				}
			})
			for range 2 {
				watching.Go(func() {
					for {
						a := s.call("POST", "/policy_groups/dev/promote", "{}")
						if a.status != 200 && a.status != 409 { // 409: it lost too many races
							t.Errorf("promoting: %d %s", a.status, a.body)
						}
						s.checkPair(versions)
						select {
						case <-done:
							return
						default:
						}
					}
				})
			}
			changing.Wait()
			close(done)
			watching.Wait()
			s.must("POST", "/policy_groups/dev/promote", "{}")
			dev, qa := s.must("GET", "/policy_groups/dev/policies", ""), s.must("GET", "/policy_groups/qa/policies", "")
			if string(dev.body) != string(qa.body) {
				t.Errorf("after the last promotion dev has %s, and qa %s", dev.body, qa.body)
			}
		})
	}
}

// checkPair looks at what was promoted.
func (s *server) checkPair(versions map[string]int) {
	var active map[string]struct {
		RevisionID string `json:"revision_id"`
	}
	if err := json.Unmarshal(s.must("GET", "/policy_groups/qa/policies", "").body, &active); err != nil {
		s.Error(err)
		return
	}
	web, api := versions[active["web"].RevisionID], versions[active["api"].RevisionID]
	if web != api && web != api+1 {
		s.Errorf("qa has version %d of web with version %d of api, which never were live together", web, api)
	}
}

// commitTo tries an experiment with a policy and commits it, by the other API.
func (s *server) commitTo(policy string, n int) {
	name := "projects/" + s.project + "/locations/dev/policies/" + policy
	op, err := s.admin.CreatePolicyExperiment(s.Context(), &adminpb.CreatePolicyExperimentRequest{
		Parent: name, PolicyExperimentId: "e",
		PolicyExperiment: &adminpb.PolicyExperiment{Policy: &adminpb.Policy{Name: name, DisplayName: fmt.Sprint(n)}},
	})
	if err != nil {
		s.Error(err)
		return
	}
	created := &adminpb.PolicyExperiment{}
	if err := op.GetResponse().UnmarshalTo(created); err != nil {
		s.Error(err)
		return
	}
	if _, err := s.admin.CommitPolicyExperiment(s.Context(), &adminpb.CommitPolicyExperimentRequest{
		Name: created.Name, Etag: created.Etag,
	}); err != nil {
		s.Error(err)
	}
}

// TestRemovalsAmongActivations removes a revision, and then its policy, while others
// make it active: whichever comes first, what is active has its document.
func TestRemovalsAmongActivations(t *testing.T) {
	for _, b := range backends(t) {
		t.Run(b.name, func(t *testing.T) {
			s := serve(t, b.open(t), "p-removals", false)
			lock, other := version(t, "web", 1), version(t, "web", 2)
			activation := `{"revision_id":"` + idOf(t, lock) + `"}`
			for round := range 30 {
				s.call("POST", "/policies/web/revisions", lock)
				s.must("PUT", "/policy_groups/dev/policies/web", other)
				s.must("PUT", "/policy_groups/dev", `{"next_group_name":"qa"}`)
				removed := "/policies/web/revisions/" + idOf(t, lock)
				if round%2 == 1 {
					removed = "/policies/web"
				}
				var racing sync.WaitGroup
				for _, run := range []func() apiResponse{
					func() apiResponse { return s.call("DELETE", removed, "") },
					func() apiResponse { return s.call("POST", "/policy_groups/dev/policies/web", activation) },
					func() apiResponse {
						return s.call("POST", fmt.Sprintf("/policy_groups/new%d/policies/web", round), activation)
					},
					func() apiResponse { return s.call("POST", "/policy_groups/dev/promote", "{}") },
				} {
					racing.Go(func() {
						if a := run(); a.status >= 500 {
							t.Errorf("%d %s", a.status, a.body)
						}
					})
				}
				racing.Wait()
				s.checkDocuments(lock, other)
				s.call("DELETE", "/policies/web", "")
			}
		})
	}
}

// checkDocuments compares what is active with the locks that it is said to be.
func (s *server) checkDocuments(locks ...string) {
	var groups map[string]struct {
		Policies map[string]struct {
			RevisionID string `json:"revision_id"`
		}
	}
	if err := json.Unmarshal(s.must("GET", "/policy_groups", "").body, &groups); err != nil {
		s.Fatal(err)
	}
	for _, lock := range locks {
		id := idOf(s.T, lock)
		for name, g := range groups {
			if g.Policies["web"].RevisionID != id {
				continue
			}
			if got := s.must("GET", "/policy_groups/"+name+"/policies/web", "").body; string(got) != lock {
				s.Errorf("in %s, the lock %s is %s", name, id, got)
			}
			s.must("GET", "/policies/web/revisions/"+id, "")
		}
	}
}

// losing is a store on which every change loses its race.
type losing struct{ stores }

func (losing) Commit(context.Context, admin.Txn) (int64, error) {
	return 0, &admin.ConditionError{Condition: admin.Absent{}}
}

// TestLostRaces says of a change that never wins that it lost, not that what it wants is
// there, or in use.
func TestLostRaces(t *testing.T) {
	store := backends(t)[1].open(t)
	lock := version(t, "web", 1)
	serve(t, store, "p-lost", false).must("POST", "/policies/web/revisions", lock)
	s := serve(t, losing{store}, "p-lost", false)
	for _, c := range [][3]string{
		{"POST", "/policies/web/revisions", version(t, "web", 2)}, {"DELETE", "/policies/web/revisions/" + idOf(t, lock), ""},
		{"PUT", "/policy_groups/dev/policies/web", lock}, {"PUT", "/policy_groups/dev", `{"name":"dev"}`}, {"DELETE", "/policies/web", ""},
	} {
		a := s.call(c[0], c[1], c[2])
		if a.status != 409 || !strings.Contains(string(a.body), "again") {
			t.Errorf("%s %s: %d %s", c[0], c[1], a.status, a.body)
		}
	}
}

// listening notes what is read in lists.
type listening struct {
	stores
	mu   sync.Mutex
	read []admin.Key
}

func (l *listening) List(ctx context.Context, q admin.Query) ([]admin.Record, error) {
	records, err := l.stores.List(ctx, q)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range records {
		l.read = append(l.read, r.Key)
	}
	return records, err
}

// TestOneNameIsRead: a call about one policy does not read what all others say, of which
// there may be more than fits into memory.
func TestOneNameIsRead(t *testing.T) {
	for _, b := range backends(t) {
		t.Run(b.name, func(t *testing.T) {
			store := &listening{stores: b.open(t)}
			s := serve(t, store, "p-names", false)
			for _, group := range []string{"dev", "qa"} {
				s.must("PUT", "/policy_groups/"+group+"/policies/other", version(t, "other", 1))
			}
			lock := version(t, "web", 1)
			revision := "/policies/web/revisions/" + idOf(t, lock)
			for _, c := range [][3]string{
				{"POST", "/policies/web/revisions", lock}, {"PUT", "/policy_groups/dev/policies/web", lock},
				{"POST", "/policy_groups/qa/policies/web", `{"revision_id":"` + idOf(t, lock) + `"}`},
				{"GET", revision, ""}, {"GET", revision + "/policy_groups", ""}, {"GET", "/policies/web", ""},
				{"GET", "/policy_groups/qa/policies/web", ""}, {"DELETE", "/policy_groups/qa/policies/web", ""}, {"DELETE", "/policies/web", ""},
			} {
				store.read = nil
				s.must(c[0], c[1], c[2])
				for _, key := range store.read {
					if strings.HasSuffix(string(key), "/policies/other") {
						t.Errorf("%s %s reads %s", c[0], c[1], key)
					}
				}
			}
		})
	}
}
