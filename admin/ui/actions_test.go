package ui_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	iampb "cloud.google.com/go/iam/apiv1/iampb"
	"golang.org/x/net/html"
	"google.golang.org/protobuf/proto"

	"understudy/admin/access"
	"understudy/admin/iam"
	adminpb "understudy/admin/v1"
	evidencepb "understudy/authz/evidence/v1"
)

// fields are the hidden fields and the boxes of the form of a page that is posted to an address.
func fields(t testing.TB, page, address string) url.Values {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	out := url.Values{}
	found := false
	for n := range root.Descendants() {
		if n.Type != html.ElementNode || n.Data != "form" || attributes(n)["action"] != address {
			continue
		}
		found = true
		for i := range n.Descendants() {
			if at := attributes(i); i.Data == "input" && at["name"] != "" {
				out.Add(at["name"], at["value"])
			}
		}
	}
	if !found {
		t.Fatalf("no form is posted to %s:\n%s", address, page)
	}
	return out
}

// submit posts the form of a page as it is, with a reason where it asks for one.
func (s *site) submit(page, address string) answer {
	s.Helper()
	form := fields(s.TB, page, address)
	if form.Has("reason") {
		form.Set("reason", "as planned")
	}
	return s.post(address, form)
}

// TestCommit commits what was seen, and shows when every sidecar enforces it.
func TestCommit(t *testing.T) {
	s := newSite(t)
	s.rehearsed()
	s.publish("n1", someEvidence())
	want := s.experimentAt(trial).Policy.Modules["shop.rego"]
	confirm := s.page(trial, "/commit")
	for _, etag := range []string{s.experimentAt(trial).Etag, s.policyAt(policy).Etag} {
		if !strings.Contains(textOf(t, confirm), etag) {
			t.Errorf("the page that asks does not name %s", etag)
		}
	}
	a := s.submit(confirm, "/ui/"+trial+"/commit")
	if a.code != http.StatusSeeOther || !strings.HasPrefix(a.header.Get("Location"), "/ui/"+location+"/operations/") {
		t.Fatalf("the commit: got %d to %s\n%s", a.code, a.header.Get("Location"), a.body)
	}
	operation := s.get(a.header.Get("Location"))
	checkPage(t, "operation", operation)
	if page := textOf(t, operation.body); !strings.Contains(page, "Every live sidecar has applied it") || !strings.Contains(page, "Commit of shop/tighter") {
		t.Errorf("the operation says:\n%s", page)
	}
	if got := s.policyAt(policy).Modules["shop.rego"]; got != want {
		t.Errorf("the live policy is\n%s\nwant\n%s", got, want)
	}
	gone := s.get("/ui/" + trial)
	if gone.code != http.StatusNotFound {
		t.Errorf("the experiment: got %d, want 404", gone.code)
	}
	checkPage(t, "404", gone)
	again := s.submit(confirm, "/ui/"+trial+"/commit")
	if again.code != http.StatusNotFound || !strings.Contains(again.body, `href="/ui/`+policy+`"`) {
		t.Errorf("the form once more: got %d, want 404 with a link to what is there\n%s", again.code, again.body)
	}
}

// TestNothingOfADeletedPolicyIsLive: its last revision is not, and is not offered either.
func TestNothingOfADeletedPolicyIsLive(t *testing.T) {
	s := newSite(t)
	s.rehearsed()
	if _, err := s.server.DeletePolicy(t.Context(), &adminpb.DeletePolicyRequest{Name: policy}); err != nil {
		t.Fatal(err)
	}
	page := s.get("/ui/" + policy)
	checkPage(t, "a deleted policy", page)
	if !strings.Contains(page.body, "It is not enforced") || strings.Contains(page.body, "</svg>live") || strings.Contains(page.body, "/rollback") {
		t.Errorf("the page of a deleted policy says:\n%s", textOf(t, page.body))
	}
}

// TestAnOperationUnderWay: as long as a sidecar has not applied a change, it says how many have.
func TestAnOperationUnderWay(t *testing.T) {
	s := newSite(t)
	s.rehearsed()
	s.beat("n1", 0, policy)
	s.beat("n2", time.Hour, policy)
	a := s.submit(s.page(trial), "/ui/"+trial+"/stop")
	if a.code != http.StatusSeeOther || a.header.Get("Location") != "/ui/"+trial {
		t.Fatalf("stop: got %d to %s", a.code, a.header.Get("Location"))
	}
	a = s.submit(s.page(trial, "/commit"), "/ui/"+trial+"/commit")
	page := textOf(t, s.page(strings.TrimPrefix(a.header.Get("Location"), "/ui/")))
	if !strings.Contains(page, "Under way") || !strings.Contains(page, "0 of 2 live sidecars have applied it") {
		t.Errorf("the operation says:\n%s", page)
	}
	s.beat("n1", 0, policy)
	s.beat("n2", 0, policy)
	if page := textOf(t, s.page(strings.TrimPrefix(a.header.Get("Location"), "/ui/"))); !strings.Contains(page, "Every live sidecar has applied it: 2 of 2.") {
		t.Errorf("the operation says:\n%s", page)
	}
}

// TestACommitThatComesTooLate does nothing, and says what has changed, on either side.
func TestACommitThatComesTooLate(t *testing.T) {
	for name, change := range map[string]func(*site){
		"live policy": func(s *site) {
			if _, err := s.server.UpdatePolicy(s.Context(), &adminpb.UpdatePolicyRequest{Policy: &adminpb.Policy{Name: policy, DisplayName: "hot fix"}}); err != nil {
				s.Fatal(err)
			}
		},
		"experiment": func(s *site) {
			e := &adminpb.PolicyExperiment{Name: trial, DisplayName: "other"}
			if _, err := s.server.UpdatePolicyExperiment(s.Context(), &adminpb.UpdatePolicyExperimentRequest{PolicyExperiment: e}); err != nil {
				s.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.rehearsed()
			confirm, live := s.page(trial, "/commit"), s.policyAt(policy).Modules["shop.rego"]
			before := []string{s.experimentAt(trial).Etag, s.policyAt(policy).Etag}
			change(s)
			a := s.submit(confirm, "/ui/"+trial+"/commit")
			if a.code != http.StatusConflict {
				t.Errorf("got %d, want 409", a.code)
			}
			checkPage(t, "conflict", a)
			page := textOf(t, a.body)
			for _, etag := range append(before, s.experimentAt(trial).Etag, s.policyAt(policy).Etag) {
				if etag != before[0] && etag != before[1] && !strings.Contains(page, etag) {
					t.Errorf("the page does not name %s:\n%s", etag, page)
				}
			}
			if got := s.policyAt(policy).Modules["shop.rego"]; got != live {
				t.Errorf("the live policy has become\n%s", got)
			}
		})
	}
}

// TestACommitOfWhatIsNotReady is not offered, and refused with what is missing.
func TestACommitOfWhatIsNotReady(t *testing.T) {
	s := newSite(t)
	s.rehearsed()
	s.require(&adminpb.CommitRequirements{MinRequestCount: 10_000, MaxNewlyDeniedCount: proto.Int64(0)})
	s.publish("n1", someEvidence())
	page := textOf(t, s.page(trial))
	for _, want := range []string{"Not yet", "Neither of the requirements is met", "requests>=10000", "at least 10,000", "newly-denied=0", "not met: people decide", "the location"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q:\n%s", want, page)
		}
	}
	confirm := s.get("/ui/" + trial + "/commit")
	checkPage(t, "commit", confirm)
	if strings.Contains(confirm.body, `method="post"`) {
		t.Error("a commit is offered that the server refuses")
	}
	a := s.post("/ui/"+trial+"/commit", url.Values{"etag": {s.experimentAt(trial).Etag}, "parent_etag": {s.policyAt(policy).Etag}})
	checkPage(t, "refused", a)
	if page := textOf(t, a.body); a.code != http.StatusBadRequest || !strings.Contains(page, "have 1,000, need at least 10,000") {
		t.Errorf("got %d:\n%s", a.code, page)
	}
}

// TestACommitThatNobodyJudged is not called ready, though all that the location requires is met:
// its requirements say nothing about who is let in.
func TestACommitThatNobodyJudged(t *testing.T) {
	s := newSite(t)
	s.rehearsed()
	s.require(&adminpb.CommitRequirements{MinRequestCount: 10, MaxNewlyDeniedCount: proto.Int64(0)})
	s.publish("n1", &evidencepb.Pair{Counts: &evidencepb.Counts{BothAllow: 20, NewlyAllowed: 2}})
	for _, more := range []string{"", "/commit"} {
		page := textOf(t, s.page(trial, more))
		if !strings.Contains(page, "Look first") || strings.Contains(page, "Ready") {
			t.Errorf("%s: the verdict is not to look first:\n%s", more, page)
		}
		if want := "Both requirements are met, but no requirement is about newly-allowed"; !strings.Contains(page, want) {
			t.Errorf("%s: the page does not say %q:\n%s", more, want, page)
		}
	}
	if confirm := s.page(trial, "/commit"); !strings.Contains(confirm, "Commit all the same") || strings.Contains(confirm, `class="main"`) {
		t.Errorf("the commit is offered as if it were ready:\n%s", confirm)
	}
}

// TestStartStopAndRollback do what their forms say.
func TestStartStopAndRollback(t *testing.T) {
	s := newSite(t)
	s.rehearsed()
	first := s.policyAt(policy)
	if a := s.submit(s.page(trial), "/ui/"+trial+"/stop"); a.code != http.StatusSeeOther {
		t.Fatalf("stop: got %d\n%s", a.code, a.body)
	}
	if got := s.experimentAt(trial).PreviewMetadata.State; got != adminpb.PolicyPreviewMetadata_SUSPENDED {
		t.Errorf("the experiment is %v, want SUSPENDED", got)
	}
	if a := s.submit(s.page(trial), "/ui/"+trial+"/start"); a.code != http.StatusSeeOther {
		t.Fatalf("start: got %d\n%s", a.code, a.body)
	}
	if got := s.experimentAt(trial).PreviewMetadata.State; got != adminpb.PolicyPreviewMetadata_ACTIVE {
		t.Errorf("the experiment is %v, want ACTIVE", got)
	}
	if a := s.submit(s.page(trial, "/commit"), "/ui/"+trial+"/commit"); a.code != http.StatusSeeOther {
		t.Fatalf("commit: got %d\n%s", a.code, a.body)
	}
	rollback := "/ui/" + first.Revision + "/rollback"
	if page := s.page(policy); !strings.Contains(page, `href="`+rollback+`"`) {
		t.Errorf("no rollback to %s is offered:\n%s", first.Revision, page)
	}
	confirm := s.get(rollback)
	checkPage(t, "rollback", confirm)
	if a := s.submit(confirm.body, rollback); a.code != http.StatusSeeOther {
		t.Fatalf("rollback: got %d\n%s", a.code, a.body)
	}
	if got := s.policyAt(policy).Revision; got != first.Revision {
		t.Errorf("the live revision is %s, want %s", got, first.Revision)
	}
	if a := s.submit(confirm.body, rollback); a.code != http.StatusConflict {
		t.Errorf("a form of a policy that has changed: got %d, want 409", a.code)
	}
}

// TestPromotion shows what differs between stages, and promotes what was chosen, if it is
// still what was seen.
func TestPromotion(t *testing.T) {
	s := newSite(t)
	const next = "projects/p1/locations/prod"
	s.policyIn(location, "shop", "package envoy.authz\n\nallow := true\n")
	s.policyIn(location, "new", "package envoy.authz\n\nallow := true\n")
	s.policyIn(next, "shop", "package envoy.authz\n\nallow := false\n")
	s.policyIn(next, "old", "package envoy.authz\n\nallow := false\n")
	if _, err := s.server.UpdateConfig(t.Context(), &adminpb.UpdateConfigRequest{Config: &adminpb.Config{Name: location + "/config", NextLocation: next}}); err != nil {
		t.Fatal(err)
	}
	stages := s.get("/ui/" + location + "/stages")
	checkPage(t, "stages", stages)
	for _, want := range []string{"2 policies to promote", "only in l1", "only in prod", "differs"} {
		if !strings.Contains(textOf(t, stages.body), want) {
			t.Errorf("the stages do not say %q:\n%s", want, textOf(t, stages.body))
		}
	}
	const address = "/ui/" + location + "/promote"
	confirm := s.get(address)
	checkPage(t, "promote", confirm)
	if a := s.post(address, url.Values{"to": {next}}); a.code != http.StatusBadRequest {
		t.Errorf("without a policy: got %d, want 400", a.code)
	}
	if _, err := s.server.UpdatePolicy(t.Context(), &adminpb.UpdatePolicyRequest{Policy: &adminpb.Policy{Name: location + "/policies/new", DisplayName: "hot fix"}}); err != nil {
		t.Fatal(err)
	}
	stale := s.submit(confirm.body, address)
	if stale.code != http.StatusConflict {
		t.Errorf("what has changed: got %d, want 409", stale.code)
	}
	checkPage(t, "stale", stale)
	fixed := s.page(location, "/promote")
	if _, err := s.server.UpdatePolicy(t.Context(), &adminpb.UpdatePolicyRequest{Policy: &adminpb.Policy{Name: next + "/policies/shop", DisplayName: "hot fix"}}); err != nil {
		t.Fatal(err)
	}
	if a := s.submit(fixed, address); a.code != http.StatusConflict || s.policyAt(next+"/policies/shop").DisplayName != "hot fix" {
		t.Errorf("what it replaces has changed: got %d, want 409, and %q is live", a.code, s.policyAt(next+"/policies/shop").DisplayName)
	}
	form := fields(t, s.page(location, "/promote"), address)
	form["policy"] = slices.DeleteFunc(form["policy"], func(p string) bool { return !strings.HasPrefix(p, "new ") })
	if a := s.post(address, form); a.code != http.StatusSeeOther || !strings.HasPrefix(a.header.Get("Location"), "/ui/"+next+"/operations/") {
		t.Fatalf("the promotion: got %d to %s\n%s", a.code, a.header.Get("Location"), a.body)
	}
	if got, want := s.policyAt(next + "/policies/new").Modules["shop.rego"], s.policyAt(location + "/policies/new").Modules["shop.rego"]; got != want {
		t.Errorf("what was promoted is %q, want %q", got, want)
	}
	if got := s.policyAt(next + "/policies/shop").Modules["shop.rego"]; !strings.Contains(got, "false") {
		t.Errorf("what was not chosen has become %q", got)
	}
}

// offers are what the page of an experiment and that of its policy offer.
func (s *site) offers() (out []string) {
	s.Helper()
	page := s.page(trial) + s.page(policy) + s.page(location, "/stages")
	for name, mark := range map[string]string{"start": `/start"`, "stop": `/stop"`, "commit": `/commit"`, "rollback": `/rollback"`, "promote": `/promote"`} {
		if strings.Contains(page, mark) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// TestWhatOneMayNotDoIsNotOffered, and is refused with the permission that is missing.
func TestWhatOneMayNotDoIsNotOffered(t *testing.T) {
	s := newSiteFor(t, "owner", "viewer", "experimenter", "committer", "stranger")
	s.rehearsed()
	s.policyIn("projects/p1/locations/prod", "other", "package envoy.authz\n\nallow := true\n")
	owner := access.NewContext(t.Context(), access.Principal{Member: "token:owner"})
	if _, err := s.server.UpdateConfig(owner, &adminpb.UpdateConfigRequest{Config: &adminpb.Config{Name: location + "/config", NextLocation: "projects/p1/locations/prod"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.server.UpdatePolicy(t.Context(), &adminpb.UpdatePolicyRequest{Policy: &adminpb.Policy{Name: policy, DisplayName: "second"}}); err != nil {
		t.Fatal(err)
	}
	s.bind(map[string]access.Role{"viewer": access.RoleViewer, "experimenter": access.RoleExperimenter, "committer": access.RoleCommitter})
	for member, want := range map[string]string{
		"owner": "commit promote rollback stop", "viewer": "", "experimenter": "stop", "committer": "commit promote rollback",
	} {
		if got := strings.Join(s.as(member).offers(), " "); got != want {
			t.Errorf("%s is offered %q, want %q", member, got, want)
		}
	}
	etags := url.Values{"etag": {s.experimentAt(trial).Etag}, "parent_etag": {s.policyAt(policy).Etag}}
	for _, c := range []struct{ member, path, permission string }{
		{"viewer", "/commit", "understudy.experiments.commit"}, {"experimenter", "/commit", "understudy.experiments.commit"},
		{"viewer", "/stop", "understudy.experiments.stop"}, {"committer", "/start", "understudy.experiments.start"},
	} {
		a := s.as(c.member).post("/ui/"+trial+c.path, etags)
		checkPage(t, c.member+c.path, a)
		if page := textOf(t, a.body); a.code != http.StatusForbidden || !strings.Contains(page, "Permission "+c.permission) || !strings.Contains(page, trial) {
			t.Errorf("%s posts %s: got %d\n%s", c.member, c.path, a.code, page)
		}
	}
	// Whatever is wrong with a form, and on what is not there, who may not is refused alike.
	for _, member := range []string{"viewer", "stranger"} {
		for path, missing := range map[string]string{
			trial + "/commit": trial + "none/commit", location + "/promote": location + "none/promote",
			policy + "/revisions/r1/rollback": policy + "none/revisions/r1/rollback",
		} {
			for name, form := range map[string]url.Values{
				"empty": {}, "with nonsense": {"etag": {"x"}, "policy": {"x"}, "to": {"x"}}, "too large": {"etag": {strings.Repeat("x", 100_000)}},
			} {
				there, gone := s.as(member).post("/ui/"+path, form), s.as(member).post("/ui/"+missing, form)
				if there.code != http.StatusForbidden || gone.code != http.StatusForbidden {
					t.Errorf("%s posts %s, %s: got %d, and %d for what is missing; want 403", member, path, name, there.code, gone.code)
				}
			}
		}
	}
	if a := s.as("viewer").get("/ui/" + trial + "/commit"); a.code != http.StatusForbidden {
		t.Errorf("a viewer asks for the commit: got %d, want 403", a.code)
	}
	for _, path := range addresses {
		there, missing := s.as("stranger").get(path), s.as("stranger").get(strings.Replace(path, "/tighter", "/none", 1))
		checkPage(t, path, there)
		if there.code != http.StatusForbidden || missing.code != http.StatusForbidden {
			t.Errorf("a stranger gets %s with %d, and what is missing with %d; want 403", path, there.code, missing.code)
		}
	}
}

// bind gives members roles on the project.
func (s *site) bind(roles map[string]access.Role) {
	s.Helper()
	mixin, err := iam.New(iam.Config{Admin: s.server})
	if err != nil {
		s.Fatal(err)
	}
	p := &iampb.Policy{}
	for member, role := range roles {
		p.Bindings = append(p.Bindings, &iampb.Binding{Role: string(role), Members: []string{"token:" + member}})
	}
	if _, err := mixin.SetIamPolicy(s.Context(), &iampb.SetIamPolicyRequest{Resource: "projects/p1", Policy: p}); err != nil {
		s.Fatal(err)
	}
}

// TestWhoIsNotKnown is sent to log in, and comes back; what changes something is refused.
func TestWhoIsNotKnown(t *testing.T) {
	s := newSiteFor(t, "owner")
	s.rehearsed()
	a := s.get("/ui/" + trial + "?sort=path")
	if want := "/ui/login?return=" + url.QueryEscape("/ui/"+trial+"?sort=path"); a.code != http.StatusSeeOther || a.header.Get("Location") != want {
		t.Errorf("got %d to %s, want 303 to %s", a.code, a.header.Get("Location"), want)
	}
	if a := s.post("/ui/"+trial+"/stop", nil); a.code != http.StatusUnauthorized || a.header.Get("WWW-Authenticate") == "" {
		t.Errorf("a form: got %d %v, want 401 with a challenge", a.code, a.header)
	}
	if a := s.get("/ui/login"); a.code != http.StatusOK {
		t.Errorf("the login: got %d, want 200", a.code)
	}
	if page := s.as("owner").page(trial); !strings.Contains(page, "token:owner") || !strings.Contains(page, `action="/ui/logout"`) {
		t.Errorf("the page does not say who looks at it, or lets nobody log out:\n%s", page)
	}
}

// TestFormsOfOthersAreRefused: a page of another site cannot send one, nor name this server.
func TestFormsOfOthersAreRefused(t *testing.T) {
	s := newSite(t)
	s.rehearsed()
	form := fields(t, s.page(trial), "/ui/"+trial+"/stop").Encode()
	for name, header := range map[string][2]string{
		"another site": {"Sec-Fetch-Site", "cross-site"}, "another origin": {"Origin", "https://evil.example"}, "another host": {"Host", "evil.example"},
	} {
		r, err := http.NewRequest(http.MethodPost, s.http.URL+"/ui/"+trial+"/stop", strings.NewReader(form))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if r.Header.Set(header[0], header[1]); header[0] == "Host" {
			r.Host = header[1]
		}
		a := s.send(r)
		checkPage(t, name, a)
		if a.code != http.StatusForbidden {
			t.Errorf("%s: got %d, want 403", name, a.code)
		}
	}
	if got := s.experimentAt(trial).PreviewMetadata.State; got != adminpb.PolicyPreviewMetadata_ACTIVE {
		t.Errorf("the experiment is %v, want ACTIVE", got)
	}
}

// TestAddressesOfNothing: what is not there, and what is asked in another way, has a page.
func TestAddressesOfNothing(t *testing.T) {
	s := newSite(t)
	s.rehearsed()
	for path, want := range map[string]int{
		"/ui/nothing": http.StatusNotFound, "/ui/" + location + "/policies/none": http.StatusNotFound, "/ui/" + trial + "/stop": http.StatusMethodNotAllowed,
		"/ui/" + location + "/promote": http.StatusBadRequest, "/ui/projects/P/locations/l": http.StatusBadRequest, "/ui/" + location + "/operations/none": http.StatusNotFound,
		"/ui/projects//locations/l": http.StatusBadRequest, "/ui/" + policy + "%2Fx": http.StatusBadRequest, "/ui/" + policy + "/revisions/none/rollback": http.StatusNotFound,
	} {
		a := s.get(path)
		checkPage(t, path, a)
		if a.code != want {
			t.Errorf("GET %s: got %d, want %d\n%s", path, a.code, want, textOf(t, a.body))
		}
	}
	if a := s.post("/ui/"+trial, nil); a.code != http.StatusMethodNotAllowed || a.header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: got %d, Allow %q", a.code, a.header.Get("Allow"))
	}
	if a := s.post("/ui/"+trial+"/commit", url.Values{"etag": {strings.Repeat("x", 1<<20)}}); a.code != http.StatusBadRequest {
		t.Errorf("a large form: got %d, want 400", a.code)
	}
	s.publish("n1", &evidencepb.Pair{Counts: &evidencepb.Counts{BothAllow: 1}})
	if a := s.post("/ui/"+trial+"/commit", nil); a.code != http.StatusBadRequest {
		t.Errorf("a commit without etags: got %d, want 400", a.code)
	}
}
