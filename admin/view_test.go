package admin_test

import (
	"context"
	"errors"
	"testing"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"

	"understudy/admin"
	adminpb "understudy/admin/v1"
	"understudy/cmd/testkit"
)

const (
	basic = adminpb.PolicyView_POLICY_VIEW_BASIC
	full  = adminpb.PolicyView_POLICY_VIEW_FULL
)

// withoutContents is a store that refuses to list whole records.
type withoutContents struct{ stores }

var errContents = errors.New("a list reads contents")

// List implements admin.Store.
func (withoutContents) List(context.Context, admin.Query) ([]admin.Record, error) {
	return nil, errContents
}

// library is a server with two policies, one of which has an experiment, on one store.
type library struct {
	*testing.T
	*admin.Server
	store    stores
	location string
	policy   string
}

// onEachStore runs a test on both stores, with the location filled.
func onEachStore(t *testing.T, project string, test func(l *library)) {
	for _, b := range backends(t) {
		t.Run(b.name, func(t *testing.T) {
			store := b.open(t, project, &clock{})
			server, err := admin.NewServer(admin.Config{Store: store})
			if err != nil {
				t.Fatal(err)
			}
			location := "projects/" + project + "/locations/l1"
			l := &library{t, server, store, location, location + "/policies/web"}
			l.fill()
			test(l)
		})
	}
}

func (l *library) fill() {
	l.Helper()
	ctx := l.Context()
	for _, id := range []string{"api", "web"} {
		_, err := l.CreatePolicy(ctx, &adminpb.CreatePolicyRequest{Parent: l.location, PolicyId: id, Policy: contentOf(id)})
		l.check(err)
	}
	candidate := contentOf("candidate")
	candidate.Name = l.policy
	_, err := l.CreatePolicyExperiment(ctx, &adminpb.CreatePolicyExperimentRequest{
		Parent: l.policy, PolicyExperimentId: "e1", PolicyExperiment: &adminpb.PolicyExperiment{Policy: candidate},
	})
	l.check(err)
}

func (l *library) check(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// contentOf is a policy with all that a view may leave out.
func contentOf(name string) *adminpb.Policy {
	return &adminpb.Policy{
		DisplayName: name, Annotations: map[string]string{"team": name},
		Modules: map[string]string{name + ".rego": "package envoy.authz\n\nallow := true\n"},
		Data:    &structpb.Struct{Fields: map[string]*structpb.Value{"name": structpb.NewStringValue(name)}},
		Rules:   []*adminpb.PolicyRule{{RuleId: name, Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
	}
}

// lists are all lists of policies, by the name of what they list; each returns its policies, and
// its items as they are.
func (l *library) lists(s *admin.Server, view adminpb.PolicyView, filter string) map[string]func() ([]*adminpb.Policy, []proto.Message, error) {
	ctx := l.Context()
	return map[string]func() ([]*adminpb.Policy, []proto.Message, error){
		"policies": func() (policies []*adminpb.Policy, items []proto.Message, err error) {
			list, err := s.ListPolicies(ctx, &adminpb.ListPoliciesRequest{Parent: l.location, View: view, Filter: filter})
			for _, p := range list.GetPolicies() {
				policies, items = append(policies, p), append(items, p)
			}
			return policies, items, err
		},
		"experiments": func() (policies []*adminpb.Policy, items []proto.Message, err error) {
			list, err := s.ListPolicyExperiments(ctx, &adminpb.ListPolicyExperimentsRequest{Parent: l.policy, View: view, Filter: filter})
			for _, e := range list.GetPolicyExperiments() {
				policies, items = append(policies, e.Policy), append(items, e)
			}
			return policies, items, err
		},
		"revisions": func() (policies []*adminpb.Policy, items []proto.Message, err error) {
			list, err := s.ListPolicyRevisions(ctx, &adminpb.ListPolicyRevisionsRequest{Parent: l.policy, View: view, Filter: filter})
			for _, r := range list.GetPolicyRevisions() {
				policies, items = append(policies, r.Snapshot), append(items, r)
			}
			return policies, items, err
		},
	}
}

// got are the resources that lists have, as Get returns them.
func (l *library) got() map[string][]proto.Message {
	l.Helper()
	ctx := l.Context()
	api, err := l.GetPolicy(ctx, &adminpb.GetPolicyRequest{Name: l.location + "/policies/api"})
	l.check(err)
	web, err := l.GetPolicy(ctx, &adminpb.GetPolicyRequest{Name: l.policy})
	l.check(err)
	e1, err := l.GetPolicyExperiment(ctx, &adminpb.GetPolicyExperimentRequest{Name: l.policy + "/experiments/e1"})
	l.check(err)
	latest, err := l.GetPolicyRevision(ctx, &adminpb.GetPolicyRevisionRequest{Name: l.policy + "/revisions/latest"})
	l.check(err)
	return map[string][]proto.Message{"policies": {api, web}, "experiments": {e1}, "revisions": {latest}}
}

// TestViews: a list that is asked for all has what Get returns, and any other one has all but
// the contents.
func TestViews(t *testing.T) {
	onEachStore(t, "p-views", func(l *library) {
		whole := l.got()
		large := protocmp.IgnoreFields(&adminpb.Policy{}, "modules", "data")
		for _, view := range []adminpb.PolicyView{full, basic, adminpb.PolicyView_POLICY_VIEW_UNSPECIFIED} {
			for kind, list := range l.lists(l.Server, view, "") {
				policies, items, err := list()
				l.check(err)
				options := []cmp.Option{protocmp.Transform()}
				if view != full {
					options = append(options, large)
				}
				if diff := cmp.Diff(whole[kind], items, options...); diff != "" {
					l.Errorf("%v of %s (-got +listed):\n%s", view, kind, diff)
				}
				for _, p := range policies {
					if has := len(p.Modules) > 0 && p.Data != nil; has != (view == full) {
						l.Errorf("%v of %s: contents are there: %t", view, kind, has)
					}
				}
			}
		}
		for kind, list := range l.lists(l.Server, 7, "") {
			if _, _, err := list(); status.Code(err) != codes.InvalidArgument {
				l.Errorf("a view of %s that is none: %v", kind, err)
			}
		}
	})
}

// TestListsReadNoContents: whatever a list shows, filters and orders by, it reads contents only
// if they are asked for.
func TestListsReadNoContents(t *testing.T) {
	onEachStore(t, "p-contents", func(l *library) {
		short, err := admin.NewServer(admin.Config{Store: withoutContents{l.store}})
		l.check(err)
		for kind, list := range l.lists(short, basic, "") {
			if _, _, err := list(); err != nil {
				l.Errorf("%s: %v", kind, err)
			}
		}
		for kind, list := range l.lists(short, full, "") {
			if _, _, err := list(); err == nil {
				l.Errorf("all of %s is listed without contents", kind)
			}
		}
		ctx := l.Context()
		if _, err := short.ListPolicies(ctx, &adminpb.ListPoliciesRequest{
			Parent: l.location, Filter: `annotations.team = web AND rules:*`, OrderBy: "display_name desc",
		}); err != nil {
			l.Errorf("a filter and an order of what is basic: %v", err)
		}
		if _, err := short.ListOperations(ctx, &longrunningpb.ListOperationsRequest{Name: l.location, Filter: "metadata.verb = create"}); err != nil {
			l.Errorf("operations: %v", err)
		}
		if _, err := short.GetPolicyRevision(ctx, &adminpb.GetPolicyRevisionRequest{Name: l.policy + "/revisions/latest"}); err != nil {
			l.Errorf("one revision: %v", err)
		}
	})
}

// TestFiltersSeeContents: a filter over what the view leaves out finds it all the same.
func TestFiltersSeeContents(t *testing.T) {
	onEachStore(t, "p-filters", func(l *library) {
		for kind, filters := range map[string][]string{
			"policies":    {"modules.`web.rego`:*", `modules:"web.rego" AND data:*`},
			"experiments": {"policy.modules.`candidate.rego`:*"},
			"revisions":   {"snapshot.modules.`web.rego`:*", "snapshot.data:*"},
		} {
			for _, filter := range filters {
				policies, _, err := l.lists(l.Server, basic, filter)[kind]()
				l.check(err)
				if len(policies) != 1 || len(policies[0].Modules) > 0 || policies[0].Data != nil {
					l.Errorf("%s of %s: %v", filter, kind, policies)
				}
			}
		}
		list, err := l.ListOperations(l.Context(), &longrunningpb.ListOperationsRequest{Name: l.location, Filter: "response.modules.`web.rego`:*"})
		l.check(err)
		if len(list.Operations) != 1 {
			l.Errorf("%d operations have the module in their response, want 1", len(list.Operations))
		}
	})
}

// TestListedOperationsStayWhole: to list an operation that a sidecar has yet to apply, and
// one that it just has, takes nothing from it.
func TestListedOperationsStayWhole(t *testing.T) {
	onEachStore(t, "p-operations", func(l *library) {
		ctx := l.Context()
		node := &adminpb.Node{Name: l.location + "/nodes/n1"}
		_, err := l.store.Heartbeat(ctx, node)
		l.check(err)
		created := make(chan error, 1)
		go func() {
			_, err := l.CreatePolicy(ctx, &adminpb.CreatePolicyRequest{Parent: l.location, PolicyId: "new", Policy: contentOf("new")})
			created <- err
		}()
		listed := func() *longrunningpb.Operation {
			list, err := l.ListOperations(ctx, &longrunningpb.ListOperationsRequest{
				Name: l.location, Filter: `metadata.target = "` + l.location + `/policies/new"`,
			})
			l.check(err)
			if len(list.Operations) == 0 {
				return nil
			}
			return list.Operations[0]
		}
		for listed() == nil { // it waits for the sidecar, and is listed meanwhile
		}
		if listed().Done {
			l.Error("it is done before the sidecar has applied it")
		}
		node.AppliedSequence = everything
		_, err = l.store.Heartbeat(ctx, node)
		l.check(err)
		op := listed()
		short := &adminpb.Policy{}
		l.check(op.GetResponse().UnmarshalTo(short))
		if short.Name == "" || len(short.Modules) > 0 || short.Data != nil {
			l.Errorf("the list has the response %v", short)
		}
		got, err := l.GetOperation(ctx, &longrunningpb.GetOperationRequest{Name: op.Name})
		l.check(err)
		l.check(testkit.Receive(t, "the policy to be created", created))
		whole := &adminpb.Policy{}
		l.check(got.GetResponse().UnmarshalTo(whole))
		if diff := cmp.Diff(contentOf("new").Modules, whole.Modules); diff != "" || whole.Data == nil {
			l.Errorf("the operation has lost a part of its response: %s", diff)
		}
	})
}
