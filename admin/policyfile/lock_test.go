package policyfile_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"understudy/admin/policyfile"
)

// TestRevisionID holds the canonical form to what Chef's tools compute: the hashes
// are those of the lines in the comments, by sha256sum.
func TestRevisionID(t *testing.T) {
	const cookbooks = `"cookbook_locks":{"web":{"version":"1.0.0","identifier":"f04cc40faf628253fe7d9566d66a1733fb1afbe9"}}`
	for name, test := range map[string]struct{ document, want string }{
		"no attributes": {
			`{"revision_id":"0","name":"web","run_list":["recipe[web::default]"],` + cookbooks + `}`,
			"05dcf3f3ae9d871eeecd9d256d925ce70abc9851d88e89f5d065678e229db8f4",
		},
		"other fields do not count": {
			`{"x":[1],"revision_id":"0","name":"web","run_list":["recipe[web::default]"],"default_attributes":null,"cookbook_locks":{"web":{"version":"2.0","identifier":"f04cc40faf628253fe7d9566d66a1733fb1afbe9","y":1}}}`,
			"05dcf3f3ae9d871eeecd9d256d925ce70abc9851d88e89f5d065678e229db8f4",
		},
		// name:web
		// run-list-item:recipe[b::c]
		// run-list-item:recipe[a::b]
		// named-run-list:z;run-list-item:recipe[a::b]
		// named-run-list:z;run-list-item:recipe[b::c]
		// named-run-list:a;run-list-item:recipe[b::c]
		// cookbook:a;id:1
		// cookbook:b;id:2
		// default_attributes:{"B":[1,2.5,1000,100000000000000000000,1e+20,true,null,{}],"a":"x"y\tü"}
		// override_attributes:{"m":-3,"n":0.1}
		"everything": {
			`{"revision_id":"0","name":"web","run_list":["recipe[b::c]","recipe[a::b]"],
			"named_run_lists":{"z":["recipe[a::b]","recipe[b::c]"],"a":["recipe[b::c]"],"empty":[]},
			"cookbook_locks":{"b":{"version":"1.0.0","identifier":"2"},"a":{"version":"1.0.0","identifier":"1"}},
			"default_attributes":{"a":"x\"y\\t\u00fc","B":[1,2.50,1e3,100000000000000000000,1e20,true,null,{}]},
			"override_attributes":{"n":0.1,"m":-3}}`,
			"e6a0c70ffd1da6779b183a5f49632a20a89c9154b58ebfa19aacbf6072f0091c",
		},
		// name:web
		// default_attributes:{"a":[0,-0,-1]}
		// override_attributes:{}
		"zeros": {
			`{"revision_id":"0","name":"web","run_list":[],"cookbook_locks":{},"default_attributes":{"a":[-0,-0.0,-1]}}`,
			"13d8fb7b48e0d43358c1621d6dfb4e7206123dd22d964e83c79494d60e3e4a43",
		},
	} {
		t.Run(name, func(t *testing.T) {
			lock, err := policyfile.Parse([]byte(test.document))
			if err != nil {
				t.Fatal(err)
			}
			if got := lock.ComputeRevisionID(); got != test.want {
				t.Errorf("the revision_id is %s, want %s", got, test.want)
			}
		})
	}
}

// TestPolicyOfALock says which locks stand for a policy, and for which.
func TestPolicyOfALock(t *testing.T) {
	document, err := os.ReadFile("../../deploy/examples/shop.lock.json")
	if err != nil {
		t.Fatal(err)
	}
	lock, err := policyfile.Parse(document)
	if err != nil {
		t.Fatal(err)
	}
	if got := lock.ComputeRevisionID(); got != lock.RevisionID {
		t.Errorf("the revision_id of the example is %s, want %s", lock.RevisionID, got)
	}
	policy, err := lock.Policy()
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, r := range policy.Rules {
		paths = append(paths, r.GetRuleId()+" "+r.GetRego().GetPath())
	}
	if d := cmp.Diff([]string{"shop.methods::allow shop/methods/allow", "shop.doors::allow shop/doors/allow"}, paths); d != "" {
		t.Errorf("the chain is not the run list (-want +got)\n%s", d)
	}
	// A recipe that occurs twice is one rule, as it is one step for Chef.
	lock.RunList = append(lock.RunList, lock.RunList[0])
	if policy, err = lock.Policy(); err != nil || len(policy.Rules) != 2 {
		t.Errorf("there are %d rules (%v), want 2", len(policy.GetRules()), err)
	}
	for name, spoil := range map[string]func(*policyfile.Lock){
		"no recipes":         func(l *policyfile.Lock) { l.RunList = nil },
		"an unknown recipe":  func(l *policyfile.Lock) { l.RunList = append(l.RunList, policyfile.Recipe{Cookbook: "x", Name: "y"}) },
		"another identifier": func(l *policyfile.Lock) { l.Cookbooks[0].Identifier = "f0" },
		"no module":          func(l *policyfile.Lock) { l.Cookbooks[0].Rego = nil },
	} {
		other, err := policyfile.Parse(document)
		if err != nil {
			t.Fatal(err)
		}
		spoil(other)
		if _, err := other.Policy(); err == nil {
			t.Errorf("a lock with %s stands for a policy", name)
		}
	}
}

func TestCompose(t *testing.T) {
	modules := map[string]string{
		"a.rego":      "package shop\n\nallow := true\n",
		"a_test.rego": "package shop\n\ntest_allow if allow\n",
		"lib/b.rego":  "package lib.names\n\nx := 1\n",
	}
	document, err := policyfile.Compose(t.Context(), "web", modules, []string{"shop/allow"})
	if err != nil {
		t.Fatal(err)
	}
	lock, err := policyfile.Parse(document)
	if err != nil {
		t.Fatal(err)
	}
	policy, err := lock.Policy()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"shop.rego": modules["a.rego"], "shop-a_test.rego": modules["a_test.rego"], "lib.names.rego": modules["lib/b.rego"],
	}
	if d := cmp.Diff(want, policy.Modules); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	again, err := policyfile.Compose(t.Context(), "web", modules, []string{"shop/allow"})
	if err != nil || string(again) != string(document) {
		t.Errorf("the same modules give another lock: %v", err)
	}
	for _, rule := range []string{"none/allow", "shop", "a b/c", ""} {
		if _, err := policyfile.Compose(t.Context(), "web", modules, []string{rule}); err == nil {
			t.Errorf("the rule %q is in a lock", rule)
		}
	}
}

// TestComposeForChefCLI holds a lock to what chef-cli asks of one before it does anything
// with it: PolicyfileLock#build_from_lock_data, SolutionDependencies#consume_lock_data
// and CookbookLock#assert_required_keys_valid!.
func TestComposeForChefCLI(t *testing.T) {
	document, err := policyfile.Compose(t.Context(), "web", map[string]string{"a/b.rego": "package shop.doors\n\nallow := true\n"}, []string{"shop/doors/allow"})
	if err != nil {
		t.Fatal(err)
	}
	var lock map[string]any
	if err := json.Unmarshal(document, &lock); err != nil {
		t.Fatal(err)
	}
	cookbook := lock["cookbook_locks"].(map[string]any)["shop.doors"].(map[string]any)
	delete(cookbook, "rego")
	// The numbers are as Ruby makes them: [hex[0...14], hex[14...28], hex[28...40]].map { |h| h.to_i(16) }.
	want := map[string]any{
		"version": "1.0.0", "identifier": "d4acfd24b5ccd75549619ff8cb38ae148ff1ee902797aeb87c560467335071f0", "dotted_decimal_identifier": "59862898305256663.24006056664943416.191403337576080",
		"source": "a/b.rego", "cache_key": nil, "source_options": map[string]any{"path": "a/b.rego"},
	}
	if diff := cmp.Diff(want, cookbook); diff != "" {
		t.Errorf("the cookbook (-want +got):\n%s", diff)
	}
	rest := map[string]any{
		"included_policy_locks": []any{}, "default_attributes": map[string]any{}, "override_attributes": map[string]any{},
		"solution_dependencies": map[string]any{
			"Policyfile": []any{[]any{"shop.doors", "= 1.0.0"}}, "dependencies": map[string]any{"shop.doors (1.0.0)": []any{}},
		},
	}
	for name, value := range rest {
		if diff := cmp.Diff(value, lock[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// FuzzParse holds whatever is taken for a lock to what is done with it.
func FuzzParse(f *testing.F) {
	example, err := os.ReadFile("../../deploy/examples/shop.lock.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(example)
	for _, seed := range []string{
		`{"revision_id":"0","name":"web","run_list":[],"cookbook_locks":{}}`,
		`{"revision_id":"0","name":"web","run_list":["recipe[a::b]"],"cookbook_locks":{"a":{"version":"1.0","identifier":"x","rego":null}},"named_run_lists":{"x":["recipe[a::b]"]},"default_attributes":{"a":[1e999,-0,"\ud800"]}}`,
		`{"revision_id":"0","name":"web","name":"x"}`, `[]`, `null`, "{\"a\":\"\xff\"}", `{"policy_group_list":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		lock, err := policyfile.Parse(document)
		if err != nil {
			if lock != nil {
				t.Fatal("there is a lock and an error")
			}
			return
		}
		if !json.Valid(document) {
			t.Fatal("a lock is no JSON")
		}
		if a, b := lock.ComputeRevisionID(), lock.ComputeRevisionID(); a != b || len(a) != 64 {
			t.Fatalf("the hash is %s, then %s", a, b)
		}
		policy, err := lock.Policy()
		if (err == nil) != (policy != nil) {
			t.Fatalf("%v with %v", policy, err)
		}
		if err != nil {
			return
		}
		for _, c := range lock.Cookbooks {
			if c.Rego != nil && policyfile.Identifier(*c.Rego) != c.Identifier {
				t.Fatalf("the cookbook %s is enforced without being what its identifier says", c.Name)
			}
		}
	})
}
