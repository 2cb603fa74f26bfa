package iam_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"cloud.google.com/go/iam/apiv1/iampb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"understudy/admin"
	"understudy/admin/access"
	"understudy/admin/iam"
	adminpb "understudy/admin/v1"
)

// Bindings hold for the resource and all below it, for groups and for everybody with
// credentials, and end with the call that takes them away.
func TestBindingsAreInherited(t *testing.T) {
	onBothStores(t, func(t *testing.T, store stores) {
		s := serve(t, store, owner, "group:https://idp#admins")
		s.createPolicy()
		s.must("token:x,staff,admins", "GET", s.policy, "")
		for _, at := range []struct {
			resource string
			sees     map[string]int // :: path → status
		}{
			{s.p, map[string]int{s.policy: 200, s.l + "/policies": 200, s.p + "/locations/-/policies": 200, s.p + "/locations/l2/policies": 200, s.l + "/policies/-/revisions": 200}},
			{s.l, map[string]int{s.policy: 200, s.l + "/policies": 200, s.p + "/locations/-/policies": 403, s.p + "/locations/l2/policies": 403, s.l + "/policies/-/revisions": 200}},
			{s.policy, map[string]int{s.policy: 200, s.l + "/policies": 403, s.p + "/locations/-/policies": 403, s.l + "/config": 403, s.policy + "/revisions": 200, s.l + "/policies/-/revisions": 403}},
		} {
			for _, member := range []string{"token:reader", "group:https://idp#readers", access.AllAuthenticated} {
				s.bind(at.resource, "viewer", member)
				for path, want := range at.sees {
					s.want(want, "token:reader,others,readers", "GET", path, "")
				}
				s.want(403, "token:reader,others,readers", "DELETE", s.policy, "")
				s.setBindings(at.resource, nil)
				for path := range at.sees {
					s.want(403, "token:reader,others,readers", "GET", path, "")
				}
			}
		}
		// Members are compared as they stand there.
		s.bind(s.p, "viewer", "token:reader", "group:https://idp#readers")
		for _, who := range []string{"token:reade", "token:reader2", "chef:reader", "token:Reader", "group:https://idp#readers", "token:x,https://other#readers", "token:x,reader", "token:x,Readers", "token:x,"} {
			s.want(403, who, "GET", s.policy, "")
		}
	})
}

// The bindings of a policy end with it: they come back when it is undeleted, and not when
// another one is created under its name.
func TestBindingsLiveAsLongAsTheirPolicy(t *testing.T) {
	onBothStores(t, func(t *testing.T, store stores) {
		s := serve(t, store, owner)
		s.createPolicy()
		s.bind(s.policy, "editor", "token:e")
		s.must("token:e", "DELETE", s.policy, "")
		s.must("token:e", "GET", s.policy, "") // it is there until it is purged (AIP-164)
		records, err := store.Get(t.Context(), admin.Key(s.policy), admin.IAMPolicyOf(admin.Key(s.policy)))
		if err != nil || records[0].ExpireTime.IsZero() || !records[0].ExpireTime.Equal(records[1].ExpireTime) {
			t.Errorf("the policy expires at %v, its bindings at %v (%v)", records[0].ExpireTime, records[1].ExpireTime, err)
		}
		// What is changed meanwhile expires too.
		s.setBindings(s.policy, map[string][]string{"editor": {"token:e"}, "viewer": {"token:v"}})
		if records, err = store.Get(t.Context(), admin.Key(s.policy), admin.IAMPolicyOf(admin.Key(s.policy))); err != nil || !records[0].ExpireTime.Equal(records[1].ExpireTime) {
			t.Errorf("the policy expires at %v, its bindings at %v (%v)", records[0].ExpireTime, records[1].ExpireTime, err)
		}
		s.must("token:e", "POST", s.policy+":undelete", "{}")
		s.must("token:v", "GET", s.policy, "")
		if records, err = store.Get(t.Context(), admin.IAMPolicyOf(admin.Key(s.policy))); err != nil || !records[0].ExpireTime.IsZero() {
			t.Errorf("the bindings of an undeleted policy expire at %v (%v)", records[0].ExpireTime, err)
		}

		// A policy that cannot be read is purged at once by its deletion.
		damage(t, store, s.policy)
		s.must("token:e", "DELETE", s.policy, "")
		s.want(403, "token:e", "GET", s.policy, "")
		s.createPolicy()
		s.want(403, "token:e", "GET", s.policy, "")
		if got := s.must(owner, "GET", s.policy+":getIamPolicy", "").value["bindings"]; got != nil {
			t.Errorf("a new policy has the bindings %v of an earlier one", got)
		}

		// Nor are those taken over that an earlier policy has left behind, however that came.
		s.bind(s.policy, "editor", "token:e")
		commit(t, store, admin.Delete{Key: admin.Key(s.policy)})
		s.createPolicy()
		s.want(403, "token:e", "GET", s.policy, "")
	})
}

// damage replaces a record by what nobody can read.
func damage(t *testing.T, store admin.Store, key string) {
	t.Helper()
	commit(t, store, admin.Put{Key: admin.Key(key), Value: []byte{0xff}, Etag: "e"})
}

// commit makes a write in the project of the test.
func commit(t *testing.T, store admin.Store, write admin.Write) {
	t.Helper()
	if _, err := store.Commit(t.Context(), admin.Txn{ID: admin.NewID(), Project: projectOf(t), Writes: []admin.Write{write}}); err != nil {
		t.Fatal(err)
	}
}

// B-51, B-102: a creation needs its permission before anything can be learned of what is
// there, also by an update that may create.
func TestCreationTellsNothing(t *testing.T) {
	s := serve(t, newStore(t), owner)
	s.createPolicy()
	s.setBindings(s.l, map[string][]string{"viewer": {"token:v"}, "experimenter": {"token:x"}, "committer": {"token:c"}})
	for _, who := range []string{"token:v", "token:x", "token:c"} {
		there := s.want(403, who, "POST", s.l+"/policies?policyId=web", content)
		for _, id := range []string{"new", "NOT*VALID", ""} {
			if got := s.want(403, who, "POST", s.l+"/policies?policyId="+id, content); got.body != there.body {
				t.Errorf("%s: creating %q: got %s, want %s", who, id, got.body, there.body)
			}
		}
		got := s.want(403, who, "PATCH", s.l+"/policies/new?allowMissing=true", content)
		if !strings.Contains(got.body, string(access.PoliciesUpdate)) {
			t.Errorf("%s: got %s, want it to name %s", who, got.body, access.PoliciesUpdate)
		}
	}
	s.bind(s.l+"/policies/web", "editor", "token:e")
	s.want(403, "token:e", "PATCH", s.l+"/policies/new?allowMissing=true", content)
	s.want(403, "token:e", "POST", s.l+"/policies?policyId=new", content)
	s.bind(s.l, "editor", "token:e")
	s.must("token:e", "PATCH", s.l+"/policies/new?allowMissing=true", content)
	s.want(409, "token:e", "POST", s.l+"/policies?policyId=new", content)
}

// A promotion changes two locations, so it needs the permission on both, before anything
// about it is validated.
func TestPromotionNeedsBothLocations(t *testing.T) {
	onBothStores(t, func(t *testing.T, store stores) {
		s := serve(t, store, owner)
		s.createPolicy()
		to := s.p + "/locations/l2"
		s.must(owner, "PATCH", s.l+"/config", `{"nextLocation":"`+to+`"}`)
		request := func(destination, policies string) string {
			return `{"destination":"` + destination + `","policies":[` + policies + `]}`
		}
		web := `{"revision":"` + s.must(owner, "GET", s.policy, "").value["revision"].(string) + `"}`
		promote := func(status int, body string) answer {
			t.Helper()
			return s.want(status, "token:c", "POST", s.l+"/policies:promote", body)
		}
		promote(403, request(to, web))
		s.bind(to, "committer", "token:c")
		if got := promote(403, request(to, web)); !strings.Contains(got.body, "resource '"+s.l+"'") {
			t.Errorf("got %s, want it to name %s", got.body, s.l)
		}
		s.bind(s.l, "committer", "token:c")
		promote(200, request(to, web))
		s.setBindings(to, nil)
		first := promote(403, request(to, web))
		for _, body := range []string{request(to, `{"revision":"nonsense"}`), request(to, `{"revision":"`+s.l+`/policies/gone/revisions/x"}`), request(to, "")} {
			if got := promote(403, body); got.body != first.body || !strings.Contains(got.body, to) {
				t.Errorf("%s: got %s, want %s about %s", body, got.body, first.body, to)
			}
		}
		// Nor is anything said of a location that is not the next one, or cannot be.
		for _, other := range []string{s.p + "/locations/l3", s.p + "/locations/b d", "nonsense"} {
			if got := promote(403, request(other, web)); strings.ReplaceAll(got.body, other, to) != first.body {
				t.Errorf("to %s: got %s, want %s", other, got.body, first.body)
			}
		}
		// By gRPC, too.
		_, err := adminpb.NewPolicyPreviewClient(s.dial("token:c")).PromotePolicies(t.Context(), &adminpb.PromotePoliciesRequest{Parent: s.l, Destination: to})
		if status.Code(err) != codes.PermissionDenied {
			t.Errorf("by gRPC: got %v, want PERMISSION_DENIED", err)
		}
	})
}

// What the API says of a policy that cannot be bound.
func TestSetIamPolicyRefuses(t *testing.T) {
	s := serve(t, newStore(t), owner)
	s.createPolicy()
	many := `"token:` + strings.Repeat(`x","token:`, 1500) + `y"`
	for body, want := range map[string]string{
		`{}`: "policy: The field is required",
		`{"policy":{"bindings":[{"role":"roles/viewer"}]}}`:                                                                    "policy.bindings[0].role: There is no such role",
		`{"policy":{"bindings":[{"role":"roles/understudy.viewer","members":["token:a","user:b@c"]}]}}`:                        "policy.bindings[0].members[1]: The member is not valid: it is one of spiffe://",
		`{"policy":{"bindings":[{"role":"roles/understudy.viewer","members":["allUsers"]}]}}`:                                  "policy.bindings[0].members[0]: The member is not valid: nobody calls without credentials",
		`{"policy":{"bindings":[{"role":"roles/understudy.viewer","members":["token:"]}]}}`:                                    "the name is missing: it is token:NAME",
		`{"policy":{"bindings":[{"role":"roles/understudy.viewer","members":["oidc:https://i"]}]}}`:                            "it is oidc:ISSUER#SUBJECT",
		`{"policy":{"bindings":[{"role":"roles/understudy.viewer","members":["spiffe://d"]}]}}`:                                "a SPIFFE ID is spiffe://DOMAIN/PATH",
		`{"policy":{"bindings":[{"role":"roles/understudy.viewer","members":["token:a\u0007"]}]}}`:                             "cannot be printed",
		`{"policy":{"bindings":[{"role":"roles/understudy.viewer","members":["token:` + strings.Repeat("x", 600) + `"]}]}}`:    "it has more than 512 bytes",
		`{"policy":{"bindings":[{"role":"roles/understudy.viewer","members":[` + many + `]}]}}`:                                "policy.bindings[0].members: The bindings have more than 1500 members",
		`{"policy":{"bindings":[` + strings.Repeat(`{"role":"roles/understudy.viewer"},`, 100) + `{"role":"x"}]}}`:             "policy.bindings: There are more than 100 bindings",
		`{"policy":{"bindings":[{"role":"roles/understudy.viewer","members":["token:a"],"condition":{"expression":"true"}}]}}`: "policy.bindings[0].condition: Conditions are not supported",
		`{"policy":{"version":2}}`:                           "policy.version: The versions are 0, 1 and 3",
		`{"policy":{"auditConfigs":[{"service":"x"}]}}`:      "policy.audit_configs: Audit is not configured",
		`{"policy":{},"updateMask":"bindings,auditConfigs"}`: "update_mask: The path audit_configs",
	} {
		got := s.want(400, owner, "POST", s.policy+":setIamPolicy", body)
		if field, rule, _ := strings.Cut(want, ": "); rule == "" && !strings.Contains(got.body, want) ||
			rule != "" && !strings.Contains(got.body, "'"+field+"': "+rule) && !strings.Contains(got.body, want) {
			t.Errorf("%.200s: got %s, want %s", body, got.body, want)
		}
	}
	if got := s.must(owner, "GET", s.policy+":getIamPolicy", ""); got.value["bindings"] != nil {
		t.Errorf("what was refused was stored: %s", got.body)
	}
	s.want(404, owner, "POST", s.l+"/policies/gone:setIamPolicy", `{"policy":{}}`)
	s.want(404, owner, "GET", s.l+"/policies/gone:getIamPolicy", "")
	s.want(400, owner, "GET", s.policy+":getIamPolicy?options.requestedPolicyVersion=2", "")
	s.must(owner, "GET", s.policy+":getIamPolicy?options.requestedPolicyVersion=3", "")
}

// A policy is kept in one form, however it was written.
func TestBindingsAreMerged(t *testing.T) {
	s := serve(t, newStore(t), owner)
	s.must(owner, "POST", s.p+":setIamPolicy", `{"policy":{"version":3,"bindings":[`+
		`{"role":"roles/understudy.viewer","members":["token:b","token:a"]},{"role":"roles/understudy.editor","members":[]},`+
		`{"role":"roles/understudy.committer","members":["token:c"]},{"role":"roles/understudy.viewer","members":["token:a","group:https://idp#g"]}]}}`)
	got := s.must(owner, "GET", s.p+":getIamPolicy", "")
	delete(got.value, "etag")
	text, err := json.Marshal(got.value)
	const want = `{"bindings":[{"members":["token:c"],"role":"roles/understudy.committer"},` +
		`{"members":["group:https://idp#g","token:a","token:b"],"role":"roles/understudy.viewer"}],"version":1}`
	if err != nil || string(text) != want {
		t.Errorf("got %s, want %s (%v)", text, want, err)
	}
}

// The etag is that of what was read: a change in between is ABORTED, and of two changes at
// once one wins.
func TestEtags(t *testing.T) {
	onBothStores(t, func(t *testing.T, store stores) {
		s := serve(t, store, owner)
		s.createPolicy()
		for _, resource := range []string{s.p, s.l, s.policy} {
			s.checkEtags(t, resource)
		}
	})
}

func (s *server) checkEtags(t *testing.T, resource string) {
	t.Helper()
	set := func(etag any, member string) answer {
		return s.call(owner, "POST", resource+":setIamPolicy", fmt.Sprintf(
			`{"policy":{"etag":"%s","bindings":[{"role":"roles/understudy.viewer","members":["token:%s"]}]}}`, etag, member))
	}
	empty := s.must(owner, "GET", resource+":getIamPolicy", "").value["etag"]
	first := set(empty, "a")
	if got := set(first.value["etag"], "a"); got.body != first.body {
		t.Errorf("%s: setting the same again: got %s, want %s", resource, got.body, first.body)
	}
	stale := set(empty, "b")
	if stale.status != http.StatusConflict || !strings.Contains(stale.body, "ETAG_MISMATCH") || !strings.Contains(stale.body, first.value["etag"].(string)) {
		t.Errorf("%s: a stale etag: got %d %s, want 409 with the current one, %s", resource, stale.status, stale.body, first.value["etag"])
	}
	kept := s.must(owner, "POST", resource+":setIamPolicy", `{"policy":{},"updateMask":"etag"}`)
	if kept.body != first.body {
		t.Errorf("%s: with a mask without bindings: got %s, want %s", resource, kept.body, first.body)
	}
	const racers = 8
	var won atomic.Int64
	var racing sync.WaitGroup
	for i := range racers {
		racing.Go(func() {
			switch got := set(first.value["etag"], fmt.Sprintf("racer%d", i)); got.status {
			case http.StatusOK:
				won.Add(1)
			case http.StatusConflict:
			default:
				t.Errorf("%s: a racer: got %d %s, want 200 or 409", resource, got.status, got.body)
			}
		})
	}
	racing.Wait()
	if got := won.Load(); got != 1 {
		t.Errorf("%s: %d of %d changes with one etag were made, want 1", resource, got, racers)
	}
	s.setBindings(resource, nil)
	if got := s.must(owner, "GET", resource+":getIamPolicy", "").value["etag"]; got == first.value["etag"] {
		t.Errorf("%s: other bindings have the same etag %v", resource, got)
	}
}

// testIamPermissions says what the caller may, and nothing of what is not there.
func TestTestIamPermissions(t *testing.T) {
	s := serve(t, newStore(t), owner)
	s.createPolicy()
	s.bind(s.l, "committer", "token:c")
	asked := `{"permissions":["understudy.policies.update","understudy.experiments.commit","understudy.policies.get","understudy.policies.get","understudy.policies.setIamPolicy"]}`
	for _, c := range []struct{ who, resource, want string }{
		{"token:c", s.policy, `["understudy.experiments.commit","understudy.policies.get"]`},
		{"token:c", s.l, `["understudy.experiments.commit","understudy.policies.get"]`},
		{"token:c", s.l + "/policies/gone", `null`},
		{"token:c", s.p, `null`},
		{"token:nobody", s.policy, `null`},
		{owner, s.l + "/policies/gone", `null`},
		{owner, s.policy, `["understudy.policies.update","understudy.experiments.commit","understudy.policies.get","understudy.policies.setIamPolicy"]`},
	} {
		text, err := json.Marshal(s.must(c.who, "POST", c.resource+":testIamPermissions", asked).value["permissions"])
		if err != nil || string(text) != c.want {
			t.Errorf("%s on %s: got %s, want %s (%v)", c.who, c.resource, text, c.want, err)
		}
	}
	// What is asked of another level says nothing here, not even to an owner of everything.
	levels := `{"permissions":["understudy.projects.setIamPolicy","understudy.locations.setIamPolicy","understudy.config.update","understudy.policies.setIamPolicy"]}`
	for resource, want := range map[string]string{
		s.policy: `["understudy.policies.setIamPolicy"]`,
		s.l:      `["understudy.locations.setIamPolicy","understudy.config.update","understudy.policies.setIamPolicy"]`,
		s.p:      `["understudy.projects.setIamPolicy","understudy.locations.setIamPolicy","understudy.config.update","understudy.policies.setIamPolicy"]`,
	} {
		text, err := json.Marshal(s.must(owner, "POST", resource+":testIamPermissions", levels).value["permissions"])
		if err != nil || string(text) != want {
			t.Errorf("of all levels on %s: got %s, want %s (%v)", resource, text, want, err)
		}
	}
	for _, wrong := range []string{"understudy.policies.*", "storage.buckets.get", ""} {
		s.want(400, owner, "POST", s.policy+":testIamPermissions", `{"permissions":["`+wrong+`"]}`)
	}
	s.want(400, owner, "POST", s.policy+":testIamPermissions", `{"permissions":[`+strings.Repeat(`"understudy.policies.get",`, 100)+`"x"]}`)
}

// Without authentication everybody may everything, and bindings can be prepared.
func TestNoAuthentication(t *testing.T) {
	s := serve(t, newStore(t))
	s.must("", "POST", s.l+"/policies?policyId=web", content)
	s.must("", "POST", s.p+":setIamPolicy", `{"policy":{"bindings":[{"role":"roles/understudy.viewer","members":["token:v"]}]}}`)
	if got := s.must("", "POST", s.policy+":testIamPermissions", `{"permissions":["understudy.policies.delete"]}`).value["permissions"]; got == nil {
		t.Error("nobody in particular may not delete, although nobody is authenticated")
	}
	guarded := serve(t, s.store, owner)
	guarded.must("token:v", "GET", s.policy, "")
	guarded.want(403, "token:v", "DELETE", s.policy, "")
}

// away is a store that can be away.
type away struct {
	admin.Store
	away atomic.Bool
}

// Get implements admin.Store.
func (a *away) Get(ctx context.Context, keys ...admin.Key) ([]admin.Record, error) {
	if a.away.Load() {
		return nil, fmt.Errorf("reading: %w", admin.ErrUnavailable)
	}
	return a.Store.Get(ctx, keys...)
}

// While the store is away nobody learns that they may not, for nobody knows: the error is
// UNAVAILABLE. Owners are known without it.
func TestStoreAway(t *testing.T) {
	store := &away{Store: newStore(t)}
	s := serve(t, store, owner)
	s.createPolicy()
	s.bind(s.p, "viewer", "token:v")
	store.away.Store(true)
	for _, who := range []string{"token:v", "token:nobody"} {
		for _, path := range []string{s.policy, s.l + "/policies/gone"} {
			if got := s.want(503, who, "GET", path, ""); !strings.Contains(got.body, "STORE_UNAVAILABLE") {
				t.Errorf("%s: got %s, want STORE_UNAVAILABLE", who, got.body)
			}
		}
	}
	authorizer, err := iam.NewAuthorizer(iam.AuthorizerConfig{Store: store, Owners: []string{owner}})
	if err != nil {
		t.Fatal(err)
	}
	as := access.NewContext(t.Context(), access.Principal{Member: owner})
	if err := authorizer.Authorize(as, access.PoliciesDelete, s.policy); err != nil {
		t.Errorf("the owner: got %v, want nil", err)
	}
	store.away.Store(false)
	s.must("token:v", "GET", s.policy, "")
}

// Bindings that cannot be read give nothing, say so to those who have nothing by others,
// and can be replaced by the owner.
func TestDamagedBindings(t *testing.T) {
	onBothStores(t, func(t *testing.T, store stores) {
		s := serve(t, store, owner)
		s.createPolicy()
		s.bind(s.p, "viewer", "token:v")
		s.bind(s.l, "viewer", "token:w")
		damage(t, store, string(admin.IAMPolicyOf(admin.Key(s.l))))
		s.must("token:v", "GET", s.policy, "")
		for _, path := range []string{s.policy, s.l + "/policies/gone"} {
			if got := s.want(500, "token:w", "GET", path, ""); !strings.Contains(got.body, "RESOURCE_DAMAGED") {
				t.Errorf("got %s, want RESOURCE_DAMAGED", got.body)
			}
		}
		s.want(500, owner, "GET", s.l+":getIamPolicy", "")
		s.want(500, owner, "POST", s.l+":setIamPolicy", `{"policy":{},"updateMask":"etag"}`)
		s.bind(s.l, "viewer", "token:w")
		s.must("token:w", "GET", s.policy, "")
	})
}

// Health and the OpenAPI document need no credentials; reflection needs some, and no
// permission.
func TestWhatIsOpen(t *testing.T) {
	s := serve(t, newStore(t), owner)
	response, err := http.Get(s.URL + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("/openapi.json: got %d, want 200", response.StatusCode)
	}
	nobody, anybody := s.dial(""), s.dial("token:nobody")
	if _, err := grpc_health_v1.NewHealthClient(nobody).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "google.iam.v1.IAMPolicy"}); err != nil {
		t.Errorf("health: got %v, want nil", err)
	}
	list := func(client grpc_reflection_v1.ServerReflectionClient) error {
		stream, err := client.ServerReflectionInfo(t.Context())
		if err != nil {
			return err
		}
		_ = stream.Send(&grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}})
		_, err = stream.Recv()
		return err
	}
	if err := list(grpc_reflection_v1.NewServerReflectionClient(nobody)); status.Code(err) != codes.Unauthenticated {
		t.Errorf("reflection for nobody: got %v, want UNAUTHENTICATED", err)
	}
	if err := list(grpc_reflection_v1.NewServerReflectionClient(anybody)); err != nil {
		t.Errorf("reflection for somebody: got %v, want nil", err)
	}
}

// The mixin by gRPC, as a client of Google's has it.
func TestMixinByRPC(t *testing.T) {
	s := serve(t, newStore(t), owner)
	s.createPolicy()
	client := iampb.NewIAMPolicyClient(s.dial(owner))
	read, err := client.GetIamPolicy(t.Context(), &iampb.GetIamPolicyRequest{Resource: s.policy})
	if err != nil {
		t.Fatal(err)
	}
	read.Bindings = append(read.Bindings, &iampb.Binding{Role: string(access.RoleViewer), Members: []string{"token:v"}})
	set, err := client.SetIamPolicy(t.Context(), &iampb.SetIamPolicyRequest{Resource: s.policy, Policy: read})
	if err != nil || len(set.GetBindings()) != 1 || len(set.GetEtag()) == 0 {
		t.Fatalf("got %v, %v", set, err)
	}
	if _, err = client.SetIamPolicy(t.Context(), &iampb.SetIamPolicyRequest{Resource: s.policy, Policy: read}); status.Code(err) != codes.Aborted {
		t.Errorf("a stale etag: got %v, want ABORTED", err)
	}
	tested, err := iampb.NewIAMPolicyClient(s.dial("token:v")).TestIamPermissions(t.Context(), &iampb.TestIamPermissionsRequest{
		Resource: s.policy, Permissions: []string{string(access.PoliciesGet), string(access.PoliciesDelete)},
	})
	if err != nil || fmt.Sprint(tested.GetPermissions()) != "[understudy.policies.get]" {
		t.Errorf("got %v, %v; want understudy.policies.get", tested, err)
	}
	for _, resource := range []string{"", "folders/f", "projects/P", s.l + "/nodes/n1", s.policy + "/experiments/e1", s.p + "/locations/-"} {
		if _, err := client.GetIamPolicy(t.Context(), &iampb.GetIamPolicyRequest{Resource: resource}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%q: got %v, want INVALID_ARGUMENT", resource, err)
		}
	}
}

// A policy whose ID ends as a method does is read by an escaped colon (AIP-127).
func TestIDsWithColons(t *testing.T) {
	s := serve(t, newStore(t), owner)
	s.want(404, owner, "GET", s.l+"/policies/web%3AgetIamPolicy", "")
	got := s.want(404, owner, "GET", s.l+"/policies/web:getIamPolicy", "")
	if !strings.Contains(got.body, "policies/web'") {
		t.Errorf("got %s, want it to be about the bindings of web", got.body)
	}
}

// A name that no message could hold is refused like any other.
func TestNamesThatAreNotUTF8(t *testing.T) {
	s := serve(t, newStore(t), owner)
	got := s.want(403, "token:nobody", "GET", s.l+"/policies/%FF", "")
	if want := denied(access.PoliciesGet, s.l+"/policies/\uFFFD"); strings.TrimSpace(got.body) != want {
		t.Errorf("got %s, want %s", got.body, want)
	}
}

// FuzzSetIamPolicy sends any policy: no panic, no 500, and what is stored is read back the
// same.
func FuzzSetIamPolicy(f *testing.F) {
	for _, seed := range []string{
		`{"policy":{"bindings":[{"role":"roles/understudy.viewer","members":["token:a","group:https://idp#b"]}],"etag":"AAAA","version":1}}`,
		`{"policy":{"bindings":[{"role":"roles/understudy.owner","members":["spiffe://d/p","oidc:https://i#s","cert:x y","chef:c","allAuthenticated"]}]}}`,
		`{"policy":{},"updateMask":"bindings"}`, `{"policy":{"bindings":[{"condition":{}}]}}`, `[`,
	} {
		f.Add(seed)
	}
	s := serve(f, newStore(f))
	handler := s.Config.Handler
	ask := func(method, verb, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "/v1/"+s.p+":"+verb, io.NopCloser(strings.NewReader(body)))
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	f.Fuzz(func(t *testing.T, body string) {
		set := ask("POST", "setIamPolicy", body)
		switch set.Code {
		case http.StatusOK:
			if got := ask("GET", "getIamPolicy", ""); got.Body.String() != set.Body.String() {
				t.Errorf("%s: got %s, want %s", body, got.Body, set.Body)
			}
		case http.StatusBadRequest, http.StatusConflict:
		default:
			t.Errorf("%s: got %d %s", body, set.Code, set.Body)
		}
	})
}
