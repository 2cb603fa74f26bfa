package policyfile_test

import (
	"encoding/json"
	"testing"
)

// The types into which the Go client of Chef decodes answers. A value that does not
// fit them fails there, so these are not to be made wider.
type (
	clientPolicies map[string]struct {
		URI       string         `json:"uri,omitempty"`
		Revisions map[string]any `json:"revisions,omitempty"`
	}
	clientPolicy map[string]map[string]map[string]any
	clientGroup  struct {
		URI      string                       `json:"uri,omitempty"`
		Policies map[string]map[string]string `json:"policies,omitempty"`
	}
	clientGroups   map[string]clientGroup
	clientRevision struct {
		RevisionID          string              `json:"revision_id,omitempty"`
		Name                string              `json:"name,omitempty"`
		RunList             []string            `json:"run_list,omitempty"`
		NamedRunLists       map[string][]string `json:"named_run_lists,omitempty"`
		IncludedPolicyLocks []struct {
			Name          string            `json:"name,omitempty"`
			RevisionID    string            `json:"revision_id,omitempty"`
			SourceOptions map[string]string `json:"source_options,omitempty"`
		} `json:"included_policy_locks,omitempty"`
		CookbookLocks map[string]struct {
			Version                 string            `json:"version,omitempty"`
			Identifier              string            `json:"identifier,omitempty"`
			DottedDecimalIdentifier string            `json:"dotted_decimal_identifier,omitempty"`
			Origin                  string            `json:"origin,omitempty"`
			Source                  string            `json:"source,omitempty"`
			CacheKey                string            `json:"cache_key,omitempty"`
			SourceOptions           map[string]string `json:"source_options,omitempty"`
		} `json:"cookbook_locks,omitempty"`
		DefaultAttributes    map[string]any `json:"default_attributes,omitempty"`
		OverrideAttributes   map[string]any `json:"override_attributes,omitempty"`
		SolutionDependencies struct {
			Policyfile   [][]string `json:"Policyfile,omitempty"`
			Dependencies any        `json:"dependencies,omitempty"`
		} `json:"solution_dependencies"`
	}
)

// chefLock is a lock as chef-cli writes it.
const chefLock = `{
  "name": "web",
  "run_list": ["recipe[policyfile_demo::default]"],
  "named_run_lists": {"update_jenkins": ["recipe[jenkins::master]"]},
  "included_policy_locks": [{"name": "base", "revision_id": "f0", "source_options": {"path": "base.lock.json"}}],
  "cookbook_locks": {
    "policyfile_demo": {
      "version": "0.1.0", "identifier": "f04cc40faf628253fe7d9566d66a1733fb1afbe9",
      "dotted_decimal_identifier": "67638399371010690.23642238397896298.25512023620585",
      "source": "cookbooks/policyfile_demo", "cache_key": null,
      "scm_info": {"scm": "git", "remote": "git@example.com:demo.git", "revision": "edd40c30", "working_tree_clean": false, "published": false, "synchronized_remote_branches": []},
      "source_options": {"path": "cookbooks/policyfile_demo"}
    }
  },
  "default_attributes": {"a": {"b": 1}},
  "override_attributes": {},
  "solution_dependencies": {"Policyfile": [["policyfile_demo", "= 0.1.0"]], "dependencies": {"policyfile_demo (0.1.0)": []}}
}`

// TestGoClient decodes every answer that the Go client of Chef asks for.
func TestGoClient(t *testing.T) {
	for _, b := range backends(t) {
		t.Run(b.name, func(t *testing.T) {
			s := serve(t, b.open(t), "p-client", false)
			lock := seal(t, chefLock)
			id := idOf(t, lock)
			s.must("PUT", "/policy_groups/dev/policies/web", lock)
			s.must("PUT", "/policy_groups/empty", `{"name":"empty","next_group_name":"dev"}`)
			decode := func(method, path string, into any) {
				t.Helper()
				if err := json.Unmarshal(s.must(method, path, "").body, into); err != nil {
					t.Errorf("%s %s: %v", method, path, err)
				}
			}
			var revision clientRevision
			decode("GET", "/policies", &clientPolicies{})
			decode("GET", "/policies/web", &clientPolicy{})
			decode("GET", "/policies/web/revisions/"+id, &revision)
			if revision.RevisionID != id || revision.CookbookLocks["policyfile_demo"].Version != "0.1.0" {
				t.Errorf("the revision is %+v", revision)
			}
			decode("GET", "/policy_groups", &clientGroups{})
			decode("GET", "/policy_groups/dev", &clientGroup{})
			decode("GET", "/policy_groups/empty", &clientGroup{})
			decode("GET", "/policy_groups/dev/policies/web", &clientRevision{})
			decode("DELETE", "/policy_groups/dev/policies/web", &clientRevision{})
			decode("DELETE", "/policies/web/revisions/"+id, &clientRevision{})
			decode("GET", "/policies/web", &clientPolicy{})
			decode("DELETE", "/policies/web", &clientPolicy{})
			decode("DELETE", "/policy_groups/dev", &clientGroup{})
		})
	}
}
