package policyfile_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"understudy/admin/access"
	"understudy/admin/policyfile"
	"understudy/admin/policyfile/signature"
	"understudy/admin/policyfile/signature/signaturetest"
	adminpb "understudy/admin/v1"
)

// signing is a server that takes the signatures of alice, and others at their word if it is
// asked to.
func signing(t *testing.T, store stores, project string, other access.Authenticator) *server {
	t.Helper()
	keys, err := signature.OpenKeyring(map[string]string{"alice": signaturetest.PublicFile(t, signaturetest.Key())}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return serveWith(t, store, policyfile.Config{Project: project, Keys: keys, Authenticator: other})
}

// send sends a request that is signed, after change has had it.
func (s *server) send(signed signaturetest.Request, change func(*http.Request)) apiResponse {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), signed.Method, s.URL+signed.Path, strings.NewReader(signed.Body))
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	signed.Sign(r.Header, signaturetest.Key())
	if change != nil {
		change(r)
	}
	response, err := s.Client().Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.Fatal(err)
	}
	return apiResponse{response.StatusCode, body, response.Header}
}

func TestSignedRequests(t *testing.T) {
	s := signing(t, backends(t)[1].open(t), "p-signed", nil)
	lock := seal(t, testLock("web"))
	for _, version := range []string{"1.0", "1.1", "1.3"} {
		put := signaturetest.Request{Version: version, User: "alice", Method: "PUT", Path: "/policy_groups/" + "v" + version + "/policies/web", Body: lock, At: time.Now()}
		if a := s.send(put, nil); a.status != 201 {
			t.Errorf("%s: got %d %s", version, a.status, a.body)
		}
		if a := s.send(put, func(r *http.Request) { r.URL.RawQuery = "allow_no_op=true" }); a.status != 200 {
			t.Errorf("%s with a query: got %d %s", version, a.status, a.body)
		}
		for name, c := range map[string]struct {
			change func(*http.Request)
			want   string
		}{
			"another body": {func(r *http.Request) {
				r.Body, r.ContentLength = io.NopCloser(strings.NewReader(lock+" ")), int64(len(lock)+1)
			}, "Failed to authenticate as 'alice'. Ensure that your node_name and client key are correct."},
			"another path": {func(r *http.Request) { r.URL.Path = "/policy_groups/other/policies/web" },
				"Failed to authenticate as 'alice'. Ensure that your node_name and client key are correct."},
			"a name without a key": {func(r *http.Request) { r.Header.Set("X-Ops-UserId", "mallory") },
				"Failed to authenticate as 'mallory'. Ensure that your node_name and client key are correct."},
			"no signature": {func(r *http.Request) { r.Header.Del("X-Ops-Authorization-1") },
				"missing required authentication header(s) X-Ops-Authorization-1"},
			"an old one": {func(r *http.Request) { r.Header.Set("X-Ops-Timestamp", "2009-01-01T12:00:00Z") },
				"Failed to authenticate as alice. Synchronize the clock on your host."},
			"nothing": {func(r *http.Request) { r.Header = make(http.Header) },
				"missing required authentication header(s) X-Ops-Sign, X-Ops-UserId, X-Ops-Timestamp, X-Ops-Content-Hash, X-Ops-Authorization-1"},
		} {
			a := s.send(put, c.change)
			if want := `{"error":["` + c.want + `"]}`; a.status != 401 || strings.TrimSpace(string(a.body)) != want {
				t.Errorf("%s, %s: got %d %s, want %s", version, name, a.status, a.body, want)
			}
			if got := a.header.Get("WWW-Authenticate"); !strings.HasPrefix(got, "X-Ops-Sign version=") {
				t.Errorf("%s, %s: got the challenge %q", version, name, got)
			}
		}
	}
	policy, err := s.admin.GetPolicyRevision(t.Context(), &adminpb.GetPolicyRevisionRequest{Name: "projects/p-signed/locations/v1.3/policies/web/revisions/" + idOf(t, lock)})
	if err != nil || policy.GetCreator() != "chef:alice" {
		t.Errorf("the creator is %q, %v; want chef:alice", policy.GetCreator(), err)
	}
	large := signaturetest.Request{Version: "1.3", User: "alice", Method: "PUT", Path: "/policy_groups/large", Body: strings.Repeat(" ", 1_000_001), At: time.Now()}
	if a := s.send(large, nil); a.status != 413 {
		t.Errorf("a large body: got %d %s", a.status, a.body)
	}
	manifest := `{"name":"c","identifier":"1"` + strings.Repeat(" ", 2_000_000-len(`{"name":"c","identifier":"1"}`)) + "}"
	for body, want := range map[string]int{manifest + " ": 413, manifest: 201} {
		put := signaturetest.Request{Version: "1.3", User: "alice", Method: "PUT", Path: "/cookbook_artifacts/c/1", Body: body, At: time.Now()}
		if a := s.send(put, nil); a.status != want {
			t.Errorf("a manifest of %d bytes: got %d %s, want %d", len(body), a.status, a.body, want)
		}
	}
	get := signaturetest.Request{Version: "1.0", User: "alice", Method: "GET", Path: "/policy_groups/large", At: time.Now()}
	if a := s.send(get, nil); a.status != 404 {
		t.Errorf("after requests that were refused: got %d %s", a.status, a.body)
	}
	if a := s.send(get, func(r *http.Request) { r.Method, r.URL.Path, r.Header = "PATCH", "/nodes", http.Header{} }); a.status != 401 {
		t.Errorf("a path that is not served: got %d, want 401 before 404", a.status)
	}
}

// Headers of a signature decide, and credentials of another kind never make up for a bad one.
func TestSignedOrOtherwise(t *testing.T) {
	s := signing(t, backends(t)[1].open(t), "p-both", caller{})
	get := signaturetest.Request{Version: "1.1", User: "alice", Method: "GET", Path: "/policies", At: time.Now()}
	for name, c := range map[string]struct {
		change func(*http.Request)
		want   int
	}{
		"signed":                      {nil, 200},
		"otherwise":                   {func(r *http.Request) { r.Header = http.Header{"Caller": {"bob"}} }, 200},
		"neither":                     {func(r *http.Request) { r.Header = http.Header{} }, 401},
		"a bad signature and a token": {func(r *http.Request) { r.Header.Set("Caller", "bob"); r.Header.Set("X-Ops-UserId", "bob") }, 401},
		"half a signature and a token": {func(r *http.Request) {
			r.Header = http.Header{"Caller": {"bob"}}
			r.Header.Set("X-Ops-Sign", "version=1.0")
		}, 401},
	} {
		a := s.send(get, c.change)
		if a.status != c.want {
			t.Errorf("%s: got %d %s, want %d", name, a.status, a.body, c.want)
		}
		if got := a.header.Values("WWW-Authenticate"); a.status == 401 && len(got) != 2 {
			t.Errorf("%s: got the challenges %q, want both", name, got)
		}
	}
}
