package ui_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"understudy/admin"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	evidencepb "understudy/authz/evidence/v1"
)

// experimentWith creates an experiment with a policy, which has no content worth reading, and
// starts its preview unless the evidence is nil: then it publishes what was compared.
func (s *site) experimentWith(policy, id string, counts *evidencepb.Counts) string {
	s.Helper()
	p := newPolicy("package envoy.authz\n\nallow := true\n")
	p.Name = location + "/policies/" + policy
	if _, err := s.server.CreatePolicyExperiment(s.Context(), &adminpb.CreatePolicyExperimentRequest{
		Parent: p.Name, PolicyExperimentId: id, PolicyExperiment: &adminpb.PolicyExperiment{Policy: p},
	}); err != nil {
		s.Fatal(err)
	}
	name := p.Name + "/experiments/" + id
	if counts == nil {
		return name
	}
	if _, err := s.server.StartPreviewPolicyExperiment(s.Context(), &adminpb.StartPreviewPolicyExperimentRequest{Name: name}); err != nil {
		s.Fatal(err)
	}
	s.publishOf(name, counts)
	return name
}

// publishOf publishes what was compared with an experiment.
func (s *site) publishOf(name string, counts *evidencepb.Counts) {
	s.Helper()
	e := s.experimentAt(name)
	live := s.policyAt(string(authz.ResourceName(name).Policy()))
	value, err := proto.Marshal(&evidencepb.Evidence{
		Experiment: e.Name, Uid: e.Uid, ExperimentEtag: e.Etag, Pairs: []*evidencepb.Pair{{PolicyEtag: live.Etag, Counts: counts}},
	})
	if err != nil {
		s.Fatal(err)
	}
	if _, err := s.store.Publish(s.Context(), location+"/nodes/n1", []authz.PublishedEvidence{{
		Experiment: e.Name, UID: e.Uid, Tally: "tally-of-" + e.Uid, Serial: 1, Value: value,
	}}); err != nil {
		s.Fatal(err)
	}
}

// TestExperimentsInTheOrderOfDecisions: those that somebody has to judge come first, those that
// were never started last, whatever their policies are called.
func TestExperimentsInTheOrderOfDecisions(t *testing.T) {
	s := newSite(t)
	for _, id := range []string{"a", "b", "c", "d"} {
		s.policyIn(location, id, "package envoy.authz\n\nallow := true\n")
	}
	s.experimentWith("a", "new", nil)
	s.experimentWith("b", "waits", &evidencepb.Counts{})
	s.experimentWith("c", "same", &evidencepb.Counts{BothAllow: 10})
	s.experimentWith("d", "differs", &evidencepb.Counts{BothAllow: 10, NewlyAllowed: 1})
	page := s.page(location)
	checkPage(t, "the location", s.get("/ui/"+location))
	if got, want := rowsOf(page, "trials"), []string{"d/differs", "c/same", "b/waits", "a/new"}; !slices.Equal(got, want) {
		t.Errorf("the experiments are %v, want %v", got, want)
	}
	s.require(&adminpb.CommitRequirements{MaxNewlyAllowedCount: proto.Int64(0)})
	if got, want := rowsOf(s.page(location), "trials"), []string{"d/differs", "c/same", "b/waits", "a/new"}; !slices.Equal(got, want) {
		t.Errorf("with a requirement, the experiments are %v, want %v", got, want)
	}
	if text := textOf(t, page); !strings.Contains(text, "4 experiments, those first that wait for a decision") {
		t.Errorf("the page does not say in which order they are:\n%s", text)
	}
}

// rowsOf are the first cells of the table of a part.
func rowsOf(page, part string) (rows []string) {
	_, of, _ := strings.Cut(page, `id="part-`+part+`"`)
	of, _, _ = strings.Cut(of, `</section>`)
	for _, row := range regexp.MustCompile(`<th scope="row"><a href="[^"]*">([^<]*)</a>`).FindAllStringSubmatch(of, -1) {
		rows = append(rows, row[1])
	}
	return rows
}

// TestFind: a search finds policies and experiments by their IDs and names for display, and
// texts that mean something in a filter are texts.
func TestFind(t *testing.T) {
	s := newSite(t)
	for _, id := range []string{"orders", "payments"} {
		s.policyIn(location, id, "package envoy.authz\n\nallow := true\n")
		s.experimentWith(id, "stricter", nil)
	}
	s.experimentWith("orders", "open", nil)
	for q, want := range map[string][2][]string{
		"ORDER":            {{"orders/open", "orders/stricter"}, {"orders"}},
		"orders/str":       {{"orders/stricter"}, nil},
		"open":             {{"orders/open"}, nil},
		"Shop":             {nil, {"orders", "payments"}},
		`" OR name:*`:      {nil, nil},
		`\`:                {nil, nil},
		"nothing has this": {nil, nil},
	} {
		a := s.get("/ui/" + location + "?q=" + url.QueryEscape(q))
		checkPage(t, q, a)
		for i, part := range []string{"trials", "policies"} {
			if got := rowsOf(a.body, part); !slices.Equal(got, want[i]) {
				t.Errorf("%q finds the %s %v, want %v", q, part, got, want[i])
			}
		}
	}
}

// TestPagesOfALocation: each policy and each experiment is on one page, and the pages of both
// tables do not lose what is looked for, or each other.
func TestPagesOfALocation(t *testing.T) {
	s := newSite(t)
	for i := range 53 {
		id := fmt.Sprintf("p%03d", i)
		s.policyIn(location, id, "package envoy.authz\n\nallow := true\n")
		s.experimentWith(id, "e", nil)
	}
	next := regexp.MustCompile(`<a class="button" href="(\?[^"]*)">(More [a-z]+|Experiments before)</a>`)
	links := func(page string) map[string]string {
		out := make(map[string]string)
		for _, l := range next.FindAllStringSubmatch(page, -1) {
			out[l[2]] = strings.ReplaceAll(l[1], "&amp;", "&")
		}
		return out
	}
	first := s.page(location, "?q=p0")
	second := s.page(location, links(first)["More experiments"])
	if n, m := len(rowsOf(first, "trials")), len(rowsOf(second, "trials")); n != 50 || m != 3 {
		t.Errorf("the pages have %d and %d experiments, want 50 and 3", n, m)
	}
	if back := s.page(location, links(second)["Experiments before"]); !slices.Equal(rowsOf(back, "trials"), rowsOf(first, "trials")) {
		t.Error("the way back leads elsewhere")
	}
	both := s.page(location, links(second)["More policies"])
	if n, m := len(rowsOf(both, "trials")), len(rowsOf(both, "policies")); n != 3 || m != 3 {
		t.Errorf("the second page of both has %d experiments and %d policies, want 3 of each", n, m)
	}
	if got := rowsOf(s.page(location, "?from=-1"), "trials"); len(got) != 50 {
		t.Errorf("from -1 on there are %d experiments", len(got))
	}
	if got := rowsOf(s.page(location, "?from=99999999999999999999"), "trials"); len(got) > 50 {
		t.Errorf("far behind the end there are %d experiments", len(got))
	}
}

// shortStore refuses to list contents.
type shortStore struct{ admin.Store }

// List implements admin.Store.
func (shortStore) List(context.Context, admin.Query) ([]admin.Record, error) {
	return nil, errors.New("a page lists contents")
}

// Get implements admin.Store.
func (s shortStore) Get(ctx context.Context, keys ...admin.Key) ([]admin.Record, error) {
	for _, key := range keys {
		if key.Type() != "understudy.internal/Config" {
			return nil, fmt.Errorf("a page reads the content of %s", key)
		}
	}
	return s.Store.Get(ctx, keys...)
}

// TestPagesOfListsReadNoContents: neither the page of a location nor that of the stages reads a
// policy, however much of it they show.
func TestPagesOfListsReadNoContents(t *testing.T) {
	s := newSite(t)
	s.rehearsed()
	s.beat("n1", 0, policy)
	s.publish("n1", someEvidence(), somePoints()...)
	server, err := admin.NewServer(admin.Config{Store: shortStore{s.store}})
	if err != nil {
		t.Fatal(err)
	}
	short := httptest.NewServer(s.pageOf(server).Handler(http.NotFoundHandler()))
	defer short.Close()
	s.http = short
	for _, path := range []string{"/ui/" + location, "/ui/" + location + "?q=shop", "/ui/" + location + "/stages"} {
		if a := s.get(path); a.code != http.StatusOK {
			t.Errorf("GET %s: got %d\n%s", path, a.code, textOf(t, a.body))
		}
	}
	if got := rowsOf(s.page(location), "trials"); !slices.Equal(got, []string{"shop/tighter"}) {
		t.Errorf("the page has the experiments %v", got)
	}
}

// BenchmarkLocation is the page of a location with 200 policies of 50 kB and 30 experiments.
func BenchmarkLocation(b *testing.B) {
	s := newSite(b)
	large := "package envoy.authz\n\nallow := true\n# " + strings.Repeat("x", 50_000) + "\n"
	for i := range 200 {
		id := fmt.Sprintf("p%03d", i)
		s.policyIn(location, id, large)
		if i < 30 {
			s.experimentWith(id, "e", &evidencepb.Counts{BothAllow: 1000, NewlyDenied: int64(i)})
		}
	}
	for b.Loop() {
		s.page(location)
	}
}
