package policyfile_test

import (
	"bytes"
	"context"
	"io"
	"maps"
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
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/rehearsal/supervisor/supervisortest"
	"understudy/authz/sidecar"
	"understudy/cmd/testkit"
)

// stores is what both stores implement.
type stores interface {
	admin.Store
	authz.Feed
	Close() error
}

// backend opens a store for one test. Redis is one server for all, which have a
// project each.
type backend struct {
	name string
	open func(t *testing.T) stores
}

func backends(t *testing.T) []backend {
	url := storetest.Redis(t)
	return []backend{
		{"redis", func(t *testing.T) stores {
			store, err := redisstore.Open(url)
			return opened(t, store, err)
		}},
		{"bolt", func(t *testing.T) stores {
			store, err := boltstore.Open(filepath.Join(t.TempDir(), "understudy.db"))
			return opened(t, store, err)
		}},
	}
}

func opened[S stores](t *testing.T, store S, err error) stores {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// server is the API on a store, over real HTTP.
type server struct {
	*testing.T
	store   stores
	project string
	// prefix is that of an organization, or empty.
	prefix string
	admin  *admin.Server
	// header is sent with each call.
	header http.Header
	*httptest.Server
}

func serve(t *testing.T, store stores, project string, trust bool) *server {
	t.Helper()
	return serveWith(t, store, policyfile.Config{Project: project, TrustRevisionIDs: trust})
}

// serveWith is serve with a configuration, to which it adds the admin API.
func serveWith(t *testing.T, store stores, c policyfile.Config) *server {
	t.Helper()
	s, err := admin.NewServer(admin.Config{Store: store, Authorizer: c.Authorizer})
	if err != nil {
		t.Fatal(err)
	}
	edge, err := rest.New(rest.Config{Services: s})
	if err != nil {
		t.Fatal(err)
	}
	c.Admin = s
	api, err := policyfile.New(c)
	if err != nil {
		t.Fatal(err)
	}
	listening := httptest.NewServer(api.Handler(edge))
	t.Cleanup(listening.Close)
	return &server{T: t, store: store, project: c.Project, admin: s, Server: listening}
}

// apiResponse is what a call of the API returned.
type apiResponse struct {
	status int
	body   []byte
	header http.Header
}

// call calls a path of the API as it is written.
func (s *server) call(method, path, body string) apiResponse {
	s.Helper()
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(s.Context(), method, s.URL+s.prefix+path, content)
	if err != nil {
		s.Fatal(err)
	}
	// What Chef's clients send.
	for name, value := range map[string]string{
		"Accept": "application/json", "Content-Type": "application/json", "X-Chef-Version": "18.0.0",
		"X-Ops-Server-API-Version": "1", "X-Ops-UserId": "pivotal", "X-Ops-Sign": "algorithm=sha1;version=1.0",
	} {
		r.Header.Set(name, value)
	}
	maps.Copy(r.Header, s.header)
	response, err := s.Client().Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answered, err := io.ReadAll(response.Body)
	if err != nil {
		s.Fatal(err)
	}
	return apiResponse{response.StatusCode, answered, response.Header}
}

// must is call for what has to succeed.
func (s *server) must(method, path, body string) apiResponse {
	s.Helper()
	a := s.call(method, path, body)
	if a.status/100 != 2 {
		s.Fatalf("%s %s: %d %s", method, path, a.status, a.body)
	}
	return a
}

// startNode runs a sidecar of a group until the test ends.
func (s *server) startNode(group, node string) *sidecar.Sidecar {
	s.Helper()
	sidecar, err := sidecar.New(sidecar.Config{
		Feed: s.store, Scope: authz.Scope{Location: authz.Location("projects/" + s.project + "/locations/" + group)}, Policy: "web", Node: node,
		Experiments: sidecar.Experiments{Rehearsal: supervisortest.New(s)},
	})
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- sidecar.Run(ctx) }()
	s.Cleanup(func() {
		cancel()
		if err := testkit.Receive(s, "the sidecar to end", done); err != nil {
			s.Errorf("the sidecar %s: %v", node, err)
		}
	})
	testkit.Await(s, "the sidecar "+node+" is ready", func() bool {
		select {
		case <-sidecar.Ready():
			return true
		default:
			return false
		}
	})
	location := authz.Location("projects/" + s.project + "/locations/" + group)
	head, err := s.store.Load(s.Context(), authz.Scope{Location: location})
	if err != nil {
		s.Fatal(err)
	}
	testkit.Await(s, "the sidecar "+node+" reports that it has applied everything", func() bool {
		n, err := s.admin.GetNode(s.Context(), &adminpb.GetNodeRequest{Name: string(location) + "/nodes/" + node})
		return err == nil && n.AppliedSequence >= head.Cursor.Sequence
	})
	return sidecar
}

// seal puts the right revision_id into a lock that has none.
func seal(t *testing.T, document string) string {
	t.Helper()
	draft := []byte(`{"revision_id":"0",` + strings.TrimPrefix(strings.TrimSpace(document), "{"))
	lock, err := policyfile.Parse(draft)
	if err != nil {
		t.Fatalf("%v in %s", err, document)
	}
	return string(bytes.Replace(draft, []byte(`"0"`), []byte(`"`+lock.ComputeRevisionID()+`"`), 1))
}

func idOf(t *testing.T, document string) string {
	t.Helper()
	lock, err := policyfile.Parse([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	return lock.RevisionID
}
