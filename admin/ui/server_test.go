package ui_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin"
	"understudy/admin/authentication"
	"understudy/admin/authentication/browser"
	"understudy/admin/authentication/tokens"
	"understudy/admin/boltstore"
	"understudy/admin/iam"
	"understudy/admin/rest"
	"understudy/admin/ui"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/diagnostics"
	evidencepb "understudy/authz/evidence/v1"
)

const (
	location = "projects/p1/locations/l1"
	policy   = location + "/policies/shop"
	trial    = policy + "/experiments/tighter"
)

// site is the page on a real server with a real store.
type site struct {
	testing.TB
	store  *boltstore.Store
	server *admin.Server
	config ui.Config
	ui     *ui.UI
	http   *httptest.Server
	// token is sent with each request, if there is one.
	token string
	// cookie is sent with what is live, if there is one.
	cookie string
	// serial numbers what is published.
	serial int64
}

// newSite serves the page to everybody.
func newSite(t testing.TB) *site {
	t.Helper()
	return newSiteFor(t)
}

// newSiteFor serves the page to those with a token, which is NAME-token; the first owns
// everything. Without any it is served to everybody.
func newSiteFor(t testing.TB, members ...string) *site {
	t.Helper()
	store, err := boltstore.Open(filepath.Join(t.TempDir(), "understudy.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	log := slog.New(slog.DiscardHandler)
	panics, err := diagnostics.NewPanics(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{TB: t, store: store}
	c := ui.Config{Location: location, Logger: log, Panics: panics, Guard: rest.Guard{Hosts: []string{}}}
	config := admin.Config{Store: store, OperationWait: 100 * time.Millisecond}
	var authorizer *iam.Authorizer
	if len(members) > 0 {
		if authorizer, err = iam.NewAuthorizer(iam.AuthorizerConfig{Store: store, Owners: []string{"token:" + members[0]}}); err != nil {
			t.Fatal(err)
		}
		config.Authorizer = authorizer
	}
	if s.server, err = admin.NewServer(config); err != nil {
		t.Fatal(err)
	}
	if len(members) > 0 {
		c.Authorizer = authorizer
		login := newLogin(t, members)
		c.Authenticator, c.Login = login, login
	}
	s.config = c
	s.ui = s.pageOf(s.server)
	s.http = httptest.NewServer(s.ui.Handler(http.NotFoundHandler()))
	t.Cleanup(s.http.Close)
	t.Cleanup(s.ui.Drain) // first: what is live would be waited for
	return s
}

// pageOf is the page of other services.
func (s *site) pageOf(services rest.Services) *ui.UI {
	s.Helper()
	c := s.config
	api, err := rest.New(rest.Config{Services: services, Authenticator: c.Authenticator, Authorizer: c.Authorizer})
	if err != nil {
		s.Fatal(err)
	}
	c.Services = api.Client()
	page, err := ui.New(c)
	if err != nil {
		s.Fatal(err)
	}
	return page
}

// newLogin takes the tokens of members.
func newLogin(t testing.TB, members []string) *browser.Login {
	t.Helper()
	var lines strings.Builder
	for _, m := range members {
		sum := sha256.Sum256([]byte(m + "-token"))
		fmt.Fprintf(&lines, "%s %s\n", m, hex.EncodeToString(sum[:]))
	}
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	open, err := tokens.Open([]string{file}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	authenticator, err := authentication.New(authentication.Config{Tokens: open})
	if err != nil {
		t.Fatal(err)
	}
	login, err := browser.New(browser.Config{Authenticator: authenticator})
	if err != nil {
		t.Fatal(err)
	}
	return login
}

// as returns the site as a member sees it.
func (s *site) as(member string) *site {
	other := *s
	other.token = member + "-token"
	return &other
}

// withCookie returns the site as a browser with a cookie sees it, for pages that are live.
func (s *site) withCookie(cookie string) *site {
	other := *s
	other.cookie = cookie
	return &other
}

// answer is what came back.
type answer struct {
	code   int
	header http.Header
	body   string
}

// send sends a request. It follows no redirect.
func (s *site) send(r *http.Request) answer {
	s.Helper()
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(r.WithContext(s.Context()))
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(body)}
}

// get asks for a page.
func (s *site) get(path string) answer {
	s.Helper()
	r, err := http.NewRequest(http.MethodGet, s.http.URL+path, http.NoBody)
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Accept", "text/html")
	return s.send(r)
}

// page is the page of a resource, which has to be there.
func (s *site) page(name string, more ...string) string {
	s.Helper()
	path := "/ui/" + name + strings.Join(more, "")
	a := s.get(path)
	if a.code != http.StatusOK {
		s.Fatalf("GET %s: got %d, want 200\n%s", path, a.code, a.body)
	}
	return a.body
}

// post sends a form, as a browser does that has the page.
func (s *site) post(path string, form url.Values) answer {
	s.Helper()
	r, err := http.NewRequest(http.MethodPost, s.http.URL+path, strings.NewReader(form.Encode()))
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return s.send(r)
}

// live creates a policy that allows what begins with /a, and an experiment that is previewed.
func (s *site) rehearsed() {
	s.Helper()
	s.policyIn(location, "shop", "package envoy.authz\n\nallow if input.parsed_path[0] == \"a\"\n\nallow if input.parsed_path[0] == \"health\"\n")
	s.experiment("package envoy.authz\n\nallow if input.parsed_path[0] == \"a\"\n\nallow if {\n\tinput.parsed_path[0] == \"health\"\n\tinput.operator\n}\n\nallow if more\n\nmore if false\n")
	s.start()
}

// policyIn creates a policy in a location.
func (s *site) policyIn(location, id, module string) *adminpb.Policy {
	s.Helper()
	if _, err := s.server.CreatePolicy(s.Context(), &adminpb.CreatePolicyRequest{Parent: location, PolicyId: id, Policy: newPolicy(module)}); err != nil {
		s.Fatal(err)
	}
	return s.policyAt(location + "/policies/" + id)
}

func newPolicy(module string) *adminpb.Policy {
	return &adminpb.Policy{
		DisplayName: "Shop", Modules: map[string]string{"shop.rego": module},
		Rules: []*adminpb.PolicyRule{{RuleId: "routes", Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
	}
}

func (s *site) experiment(module string) {
	s.Helper()
	p := newPolicy(module)
	p.Name = policy
	if _, err := s.server.CreatePolicyExperiment(s.Context(), &adminpb.CreatePolicyExperimentRequest{
		Parent: policy, PolicyExperimentId: "tighter", PolicyExperiment: &adminpb.PolicyExperiment{Policy: p},
	}); err != nil {
		s.Fatal(err)
	}
}

func (s *site) start() {
	s.Helper()
	if _, err := s.server.StartPreviewPolicyExperiment(s.Context(), &adminpb.StartPreviewPolicyExperimentRequest{Name: trial}); err != nil {
		s.Fatal(err)
	}
}

func (s *site) policyAt(name string) *adminpb.Policy {
	s.Helper()
	p, err := s.server.GetPolicy(s.Context(), &adminpb.GetPolicyRequest{Name: name})
	if err != nil {
		s.Fatal(err)
	}
	return p
}

func (s *site) experimentAt(name string) *adminpb.PolicyExperiment {
	s.Helper()
	e, err := s.server.GetPolicyExperiment(s.Context(), &adminpb.GetPolicyExperimentRequest{Name: name})
	if err != nil {
		s.Fatal(err)
	}
	return e
}

// require sets what the location requires of a commit.
func (s *site) require(r *adminpb.CommitRequirements) {
	s.Helper()
	if _, err := s.server.UpdateConfig(s.Context(), &adminpb.UpdateConfigRequest{
		Config: &adminpb.Config{Name: location + "/config", CommitRequirements: r},
	}); err != nil {
		s.Fatal(err)
	}
}

// beat reports a sidecar that has applied all changes but those of a time.
func (s *site) beat(id string, behind time.Duration, policies ...string) *adminpb.Node {
	s.Helper()
	node := &adminpb.Node{Name: location + "/nodes/" + id, Policies: policies, CreateTime: timestamppb.Now()}
	head, err := s.store.Heartbeat(s.Context(), node)
	if err != nil {
		s.Fatal(err)
	}
	node.AppliedSequence = head.Sequence - behind.Milliseconds()
	if _, err := s.store.Heartbeat(s.Context(), node); err != nil {
		s.Fatal(err)
	}
	return node
}

// publish publishes evidence of the present pair as a sidecar does, which has the same list of items.
func (s *site) publish(node string, pair *evidencepb.Pair, points ...*evidencepb.Point) {
	s.Helper()
	e, live := s.experimentAt(trial), s.policyAt(policy)
	pair.PolicyEtag = live.Etag
	if len(pair.Items) > 0 {
		list, err := authz.Items(s.Context(), live, e.Policy)
		if err != nil {
			s.Fatal(err)
		}
		pair.Items[0].Digest = list.Digest
	}
	now := time.Now()
	pair.Active = []*evidencepb.Span{{Begin: now.Add(-time.Minute).UnixMilli(), End: now.UnixMilli()}}
	value, err := proto.Marshal(&evidencepb.Evidence{
		Experiment: e.Name, Uid: e.Uid, ExperimentEtag: e.Etag, Pairs: []*evidencepb.Pair{pair}, Points: points,
		PublishTime: timestamppb.New(now), PublishInterval: durationpb.New(2 * time.Second),
	})
	if err != nil {
		s.Fatal(err)
	}
	s.serial++
	out, err := s.store.Publish(s.Context(), location+"/nodes/"+node, []authz.PublishedEvidence{{
		Experiment: e.Name, UID: e.Uid, Tally: "tally-of-" + node, Serial: s.serial, Value: value,
	}})
	if err != nil || len(out.Refused) > 0 {
		s.Fatalf("publishing: %v, refused %v", err, out.Refused)
	}
}

// someEvidence is of 1,000 requests, of which some of the health are newly denied.
func someEvidence() *evidencepb.Pair {
	at := timestamppb.New(time.Unix(1_790_000_000, 0))
	return &evidencepb.Pair{
		Counts: &evidencepb.Counts{BothAllow: 900, NewlyDenied: 70, AllowedChanged: 30},
		Groups: []*evidencepb.Group{
			{
				Kind: int32(adminpb.Report_NEWLY_DENIED), Method: "GET", Pattern: "/health/*", Reason: "only operators", Count: 70, ExperimentStatus: 403,
				FirstTime: at, LastTime: at, Causes: []*evidencepb.Cause{{File: "shop.rego", Line: 7, Text: "input.operator"}},
				Examples: []*evidencepb.Example{{Method: "GET", Path: "/health/7", Principal: "spiffe://x/sa/web", ExperimentStatus: 403, DecisionId: "d-1", DecideTime: at}},
			},
			{Kind: int32(adminpb.Report_RESPONSE_CHANGED), Method: "POST", Pattern: "/a/orders", Count: 30, Changes: []string{"header x-plan"}, FirstTime: at, LastTime: at},
		},
		Endpoints: []*evidencepb.Endpoint{{Method: "GET", Pattern: "/health/*", Count: 80}, {Method: "POST", Pattern: "/a/orders", Count: 300}},
		Labels:    []*evidencepb.Label{{Label: "team", Kind: int32(adminpb.Report_NEWLY_DENIED), Total: 70, Values: []*evidencepb.Label_Value{{Value: "web", Count: 70}}}},
		// Of the list of what the candidate of rehearsed adds: the condition, and two rules.
		Items: []*evidencepb.Items{{Shown: []int32{12, 0, 0}, Untrue: []int32{3, 0, 0}}},
		Noise: &evidencepb.Noise{Sampled: 20},
	}
}

// somePoints are two minutes of the last hour.
func somePoints() []*evidencepb.Point {
	minute := time.Now().Truncate(time.Minute).Unix()
	return []*evidencepb.Point{
		{Start: minute - 60, Counts: &evidencepb.Counts{BothAllow: 400, NewlyDenied: 30}},
		{Start: minute, Counts: &evidencepb.Counts{BothAllow: 500, NewlyDenied: 40, AllowedChanged: 30}},
	}
}

// document is a data document.
func document(s *site, of map[string]any) *structpb.Struct {
	s.Helper()
	d, err := structpb.NewStruct(of)
	if err != nil {
		s.Fatal(err)
	}
	return d
}
