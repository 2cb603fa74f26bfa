package iam_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"

	"understudy/admin/access"
	"understudy/admin/apierror"
)

// AIP-151, AIP-211: who has a role on a policy alone may read the operations of that policy
// and wait for them, and gets the same answer for all others, whether they are there or not.
func TestOperationsOfAPolicyOfOnesOwn(t *testing.T) {
	onBothStores(t, func(t *testing.T, store stores) {
		s := serve(t, store, owner)
		s.createPolicy()
		other := s.must(owner, "POST", s.l+"/policies?policyId=other", content).value["name"].(string)
		const ann = "token:ann"
		s.bind(s.policy, "experimenter", ann)
		own := s.must(ann, "POST", s.policy+"/experiments?policyExperimentId=e1", `{"policy":{"name":"`+s.policy+`",`+content[1:]+`}`).value["name"].(string)
		mayRead := func(want bool, names ...string) {
			t.Helper()
			for _, name := range names {
				s.reads(t, ann, name, want)
			}
		}
		missing, malformed := s.l+"/operations/gone", s.l+"/operations/b d"
		mayRead(true, own)
		mayRead(false, other, missing, malformed, s.p+"/locations/-"+strings.TrimPrefix(own, s.l))
		for method, suffix := range map[string]string{"DELETE": "", "POST": ":cancel"} {
			s.want(http.StatusForbidden, ann, method, own+suffix, "{}")
		}
		s.want(http.StatusForbidden, ann, "GET", s.l+"/operations", "")
		s.want(http.StatusForbidden, "token:ben", "GET", own, "")

		s.setBindings(s.policy, nil)
		mayRead(false, own, other, missing)
		s.bind(s.l, "viewer", ann)
		mayRead(true, own, other)
	})
}

// An operation says who has made a change, and keeps the report of a commit: who makes changes
// cannot delete it, be it of a commit, a promotion, a rollback or anything else.
func TestOwnersAloneDeleteOperations(t *testing.T) {
	s := serve(t, newStore(t), owner)
	s.createPolicy()
	const ed = "token:ed"
	s.bind(s.p, "editor", ed)
	next, first := s.p+"/locations/l2", s.must(ed, "GET", s.policy, "").value["revision"].(string)
	s.must(ed, "PATCH", s.l+"/config", `{"nextLocation":"`+next+`"}`)
	e := s.must(ed, "POST", s.policy+"/experiments?policyExperimentId=e1", `{"policy":{"name":"`+s.policy+`","displayName":"other",`+content[1:]+`}`)
	etag, err := json.Marshal(e.value["response"].(map[string]any)["etag"])
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range [][2]string{
		{s.policy + "/experiments/e1:commit", `{"etag":` + string(etag) + `}`}, {first + ":rollback", "{}"},
		{s.l + "/policies:promote", `{"destination":"` + next + `","policies":[{"revision":"` + first + `"}]}`},
	} {
		name := s.must(ed, "POST", call[0], call[1]).value["name"].(string)
		s.want(http.StatusForbidden, ed, "DELETE", name, "")
		s.must(ed, "GET", name, "")
		s.must(owner, "DELETE", name, "")
	}
}

// reads reads an operation and waits for it, by REST and by gRPC. Who may not gets the error
// of what is not there, in all its bytes.
func (s *server) reads(t *testing.T, who, name string, may bool) {
	t.Helper()
	path := strings.ReplaceAll(name, " ", "%20")
	for _, a := range []answer{s.call(who, "GET", path, ""), s.call(who, "POST", path+":wait", `{"timeout":"0.01s"}`)} {
		switch {
		case may && (a.status != http.StatusOK || a.value["name"] != name):
			t.Errorf("%s reads %s: got %d %s, want 200", who, name, a.status, a.body)
		case !may && (a.status != http.StatusForbidden || strings.TrimSpace(a.body) != denied(access.OperationsGet, name)):
			t.Errorf("%s reads %s: got %d %s, want 403 %s", who, name, a.status, a.body, denied(access.OperationsGet, name))
		}
	}
	client := longrunningpb.NewOperationsClient(s.dial(who))
	_, getErr := client.GetOperation(t.Context(), &longrunningpb.GetOperationRequest{Name: name})
	_, waitErr := client.WaitOperation(t.Context(), &longrunningpb.WaitOperationRequest{Name: name})
	for _, err := range []error{getErr, waitErr} {
		want := statusText(t, apierror.PermissionDenied(apierror.Permission(access.OperationsGet), name))
		if got := statusText(t, err); may && err != nil || !may && got != want {
			t.Errorf("%s reads %s by gRPC: got %v, want allowed: %v", who, name, err, may)
		}
	}
}
