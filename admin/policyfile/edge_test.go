package policyfile_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"understudy/admin"
	"understudy/admin/boltstore"
	"understudy/admin/policyfile"
	"understudy/admin/redisstore"
	"understudy/admin/rest"
	"understudy/admin/storetest"
)

// TestBodies refuses what a browser sends to any site, and what is no JSON.
func TestBodies(t *testing.T) {
	s := serve(t, backends(t)[1].open(t), "p-bodies", false)
	s.must("PUT", "/policy_groups/dev", `{"name":"dev"}`)
	for contentType, want := range map[string]int{
		"text/plain": 415, "application/x-www-form-urlencoded": 415, "nonsense;": 415, "application/json; charset=utf-8": 200, "": 200,
	} {
		t.Run(contentType, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), "PUT", s.URL+"/policy_groups/dev", strings.NewReader(`{"name":"dev"}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", contentType)
			response, err := s.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = response.Body.Close() }()
			if response.StatusCode != want {
				t.Errorf("the status is %d, want %d", response.StatusCode, want)
			}
		})
	}
}

// TestForeignPages: what a browser sends for a page of another site is refused by the
// rule of the other API. A promotion needs neither a body nor the browser's leave; a name
// that was made to point here needs not even another origin.
func TestForeignPages(t *testing.T) {
	store := backends(t)[1].open(t)
	server, err := admin.NewServer(admin.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	api, err := policyfile.New(policyfile.Config{Admin: server, Project: "p-foreign", Guard: rest.Guard{Hosts: []string{"admin.example.com"}}})
	if err != nil {
		t.Fatal(err)
	}
	handler := api.Handler(http.NotFoundHandler())
	elsewhere := map[string]string{"Origin": "https://elsewhere.example.com"}
	for name, tt := range map[string]struct {
		method, path, host string
		headers            map[string]string
		want               int
	}{
		"a program":                     {"GET", "/policies", "localhost:8181", nil, 200},
		"a name that is allowed":        {"GET", "/policies", "Admin.example.com", nil, 200},
		"a page that reads":             {"GET", "/policies", "localhost:8181", elsewhere, 200},
		"a promotion by a page":         {"POST", "/policy_groups/dev/promote", "localhost:8181", elsewhere, 403},
		"a deletion that is marked":     {"DELETE", "/policies/web", "localhost:8181", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		"a rebound name":                {"GET", "/policies", "evil.example.com:8181", nil, 403},
		"a rebound name, organization":  {"GET", "/organizations/p/policies", "evil.example.com:8181", nil, 403},
		"a rebound name, its own page":  {"POST", "/policy_groups/dev/promote", "evil.example.com", map[string]string{"Origin": "http://evil.example.com"}, 403},
		"a rebound name, unknown paths": {"GET", "/policies/a/b/c/d", "evil.example.com", nil, 403},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(tt.method, tt.path, nil)
			r.Host = tt.host
			for name, value := range tt.headers {
				r.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != tt.want || w.Code == 403 && !strings.HasPrefix(w.Body.String(), `{"error":["`) {
				t.Errorf("the answer is %d %s, want %d", w.Code, w.Body, tt.want)
			}
		})
	}
}

// TestOrganizations has two organizations that know nothing of one another, and one
// that cannot be.
func TestOrganizations(t *testing.T) {
	s := serve(t, backends(t)[0].open(t), "p-own", false)
	s.must("PUT", "/organizations/p-a/policy_groups/dev", `{"name":"dev"}`)
	for path, want := range map[string]string{
		"/organizations/p-a/policy_groups": `{"dev":`, "/organizations/p-b/policy_groups": "{}\n", "/policy_groups": "{}\n",
		"/organizations/p-own/policy_groups": "{}\n",
	} {
		if got := string(s.must("GET", path, "").body); !strings.HasPrefix(got, want) {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	for _, path := range []string{"/organizations", "/organizations/", "/organizations/p-a", "/organizations/NO/policies"} {
		if a := s.call("GET", path, ""); a.status != 404 {
			t.Errorf("%s is answered by %d %s", path, a.status, a.body)
		}
	}
}

// TestUnknownParametersAreRefused: a parameter of the other API, such as validateOnly, is
// no dry run here. Ignored, it would let anyone who believes in it change what is live; so
// every call refuses what it does not take, and says what it does. What chef-cli sends is
// taken.
func TestUnknownParametersAreRefused(t *testing.T) {
	s := serve(t, backends(t)[1].open(t), "p-parameters", false)
	lock := version(t, "web", 1)
	s.must("PUT", "/policy_groups/dev/policies/web", lock)
	for _, c := range []struct{ method, path, body, says string }{
		{"DELETE", "/policies/web?validateOnly=true", "", "'validateOnly' is unknown"},
		{"DELETE", "/policy_groups/dev?validate_only=true", "", "'validate_only' is unknown"},
		{"PUT", "/policy_groups/dev/policies/web?validateOnly=true", version(t, "web", 2), "takes allow_no_op"},
		{"PUT", "/policy_groups/dev/policies/web?allow_no_op=true&allow_no_op=false", lock, "more than once"},
		{"POST", "/policy_groups/dev/promote?dry_run=1", "{}", "takes allow_no_op"},
		{"GET", "/policy_groups?policy_name=web", "", "takes none"},
		{"GET", "/policy_groups/dev/nodes?policyName=web", "", "takes policy_name"},
		{"HEAD", "/policies?x=1", "", ""},
		{"PUT", "/cookbook_artifacts/shop/a1?num_versions=all", `{"name":"shop","identifier":"a1"}`, "takes force"},
	} {
		if a := s.call(c.method, c.path, c.body); a.status != http.StatusBadRequest || !strings.Contains(string(a.body), c.says) {
			t.Errorf("%s %s: %d %s, want 400 with %q", c.method, c.path, a.status, a.body, c.says)
		}
	}
	if got := string(s.must("GET", "/policy_groups/dev/policies/web", "").body); got != lock {
		t.Errorf("one of them was made: what is active is %s, want %s", got, lock)
	}
	s.must("GET", "/cookbook_artifacts?num_versions=all", "")
	s.must("PUT", "/cookbook_artifacts/shop/a1?force=true", `{"name":"shop","identifier":"a1"}`)
	s.must("GET", "/policy_groups/dev/nodes?policy_name=web", "")
}

// TestStoreAway says that nothing was changed, and not what the store is made of.
func TestStoreAway(t *testing.T) {
	redis := storetest.StartRedis(t)
	store, err := redisstore.Open(redis.URL())
	s := serve(t, opened(t, store, err), "p-away", false)
	lock := version(t, "web", 1)
	s.must("PUT", "/policy_groups/dev/policies/web", lock)
	redis.Stop()
	for _, c := range [][3]string{
		{"GET", "/policies", ""}, {"GET", "/policy_groups/dev/policies/web", ""}, {"PUT", "/policy_groups/dev/policies/web", lock},
		{"POST", "/policies/web/revisions", lock}, {"DELETE", "/policies/web", ""}, {"POST", "/policy_groups/dev/promote", "{}"},
	} {
		a := s.call(c[0], c[1], c[2])
		if a.status != 503 || !strings.Contains(string(a.body), "nothing was changed") || strings.Contains(strings.ToLower(string(a.body)), "redis") {
			t.Errorf("%s %s: %d %s", c[0], c[1], a.status, a.body)
		}
	}
}

// FuzzRequest sends anything to the API: it answers with JSON, and never fails.
func FuzzRequest(f *testing.F) {
	store, err := boltstore.Open(filepath.Join(f.TempDir(), "understudy.db"))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = store.Close() })
	server, err := admin.NewServer(admin.Config{Store: store})
	if err != nil {
		f.Fatal(err)
	}
	api, err := policyfile.New(policyfile.Config{Admin: server, Project: "p-fuzz"})
	if err != nil {
		f.Fatal(err)
	}
	handler := api.Handler(http.NotFoundHandler())
	for _, seed := range [][3]string{
		{"GET", "/policies", ""}, {"PUT", "/policy_groups/dev", `{"name":"dev","next_group_name":"qa"}`},
		{"POST", "/policy_groups/dev/promote", `{"policy_names":["web"]}`}, {"GET", "/organizations/p/policy_groups/%2e%2e/policies/%zz", ""},
		{"POST", "/policy_groups/dev/policies/web", `{"revision_id":"00"}`}, {"DELETE", "/policies/web/revisions/x", ""},
		{"PUT", "/policy_groups/dev/policies/web", `{"revision_id":"0","name":"web","run_list":[],"cookbook_locks":{}}`},
		{"GET", "/cookbook_artifacts?num_versions=all", ""}, {"PUT", "/cookbook_artifacts/shop/a1", `{"name":"shop","identifier":"a1"}`},
		{"POST", "/sandboxes", `{"checksums":{"7e9a42c539bb89e34c2b3c75622184bf":null}}`},
		{"PUT", "/sandboxes/90bff5c3bc1034480f61b3fa42e0501d", `{"is_completed":true}`}, {"POST", "/data", "{}"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, method, path, body string) {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://x/"+strings.TrimPrefix(path, "/"), strings.NewReader(body))
		if err != nil {
			return
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code >= 500 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if w.Header().Get("Content-Type") == "application/json" && !json.Valid(w.Body.Bytes()) {
			t.Fatalf("the answer is no JSON: %s", w.Body)
		}
	})
}
