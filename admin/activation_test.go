package admin_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"understudy/admin"
	"understudy/admin/access"
	"understudy/admin/content"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	evidencepb "understudy/authz/evidence/v1"
)

// as is a call of a member.
func (l *library) as(member string) context.Context {
	return access.NewContext(l.Context(), access.Principal{Member: member, Method: access.MethodToken})
}

// commitAs commits an experiment of the policy.
func (l *library) commitAs(member, id string) {
	l.Helper()
	e, err := l.GetPolicyExperiment(l.Context(), &adminpb.GetPolicyExperimentRequest{Name: l.policy + "/experiments/" + id})
	l.check(err)
	_, err = l.CommitPolicyExperiment(l.as(member), &adminpb.CommitPolicyExperimentRequest{Name: e.Name, Etag: e.Etag})
	l.check(err)
}

// publish publishes what was compared with an experiment.
func (l *library) publish(id string, pair *evidencepb.Pair) {
	l.Helper()
	ctx := l.Context()
	e, err := l.GetPolicyExperiment(ctx, &adminpb.GetPolicyExperimentRequest{Name: l.policy + "/experiments/" + id})
	l.check(err)
	live, err := l.GetPolicy(ctx, &adminpb.GetPolicyRequest{Name: l.policy})
	l.check(err)
	pair.PolicyEtag = live.Etag
	value, err := proto.Marshal(&evidencepb.Evidence{Experiment: e.Name, Uid: e.Uid, ExperimentEtag: e.Etag, Pairs: []*evidencepb.Pair{pair}})
	l.check(err)
	_, err = l.store.Publish(ctx, l.location+"/nodes/n1", []authz.PublishedEvidence{
		{Experiment: e.Name, UID: e.Uid, Tally: "t-" + e.Uid, Serial: 1, Value: value},
	})
	l.check(err)
}

// live is the revision that is live in a location.
func (l *library) live(policy string) *adminpb.PolicyRevision {
	l.Helper()
	p, err := l.GetPolicy(l.Context(), &adminpb.GetPolicyRequest{Name: policy})
	l.check(err)
	revision, err := l.GetPolicyRevision(l.Context(), &adminpb.GetPolicyRevisionRequest{Name: p.Revision})
	l.check(err)
	return revision
}

// how is how a revision became live, the first time first.
func how(r *adminpb.PolicyRevision) (texts []string) {
	for _, a := range slices.Backward(r.Activations) {
		text := a.Verb + " by " + a.Creator
		if a.Experiment != "" {
			text += " of " + authz.ResourceName(a.Experiment).ID()
		}
		if a.SourceRevision != "" {
			text += " from " + string(authz.ResourceName(a.SourceRevision).Location())
		}
		texts = append(texts, text)
	}
	return texts
}

// TestActivations: a revision says how, when and by whom its content became live, each time.
func TestActivations(t *testing.T) {
	onEachStore(t, "p-activations", func(l *library) {
		ctx := l.Context()
		first := l.live(l.policy)
		l.publish("e1", &evidencepb.Pair{Counts: &evidencepb.Counts{BothAllow: 7, NewlyDenied: 2}})
		l.commitAs("token:ann", "e1")
		committed := l.live(l.policy)
		if diff := cmp.Diff([]string{"commit by token:ann of e1"}, how(committed)); diff != "" {
			l.Error(diff)
		}
		if r := committed.Report; r.GetRequestCount() != 9 || r.GetNewlyDeniedCount() != 2 || r.GetName() != l.policy+"/experiments/e1/report" {
			l.Errorf("the report that is kept is %v", r)
		}
		if at := committed.Activations[0].ActivateTime; !at.AsTime().Equal(committed.CreateTime.AsTime()) {
			l.Errorf("it became live at %v, and was created at %v", at.AsTime(), committed.CreateTime.AsTime())
		}

		_, err := l.RollbackPolicy(l.as("token:bob"), &adminpb.RollbackPolicyRequest{Name: first.Name})
		l.check(err)
		if diff := cmp.Diff([]string{"create by ", "rollback by token:bob"}, how(l.live(l.policy))); diff != "" {
			l.Error(diff)
		}
		_, err = l.DeletePolicy(l.as("token:bob"), &adminpb.DeletePolicyRequest{Name: l.policy})
		l.check(err)
		_, err = l.UndeletePolicy(l.as("token:cid"), &adminpb.UndeletePolicyRequest{Name: l.policy})
		l.check(err)
		again := l.live(l.policy)
		if diff := cmp.Diff([]string{"create by ", "rollback by token:bob", "undelete by token:cid"}, how(again)); diff != "" {
			l.Error(diff)
		}
		if again.Creator != first.Creator || !again.CreateTime.AsTime().Equal(first.CreateTime.AsTime()) || again.Report != nil {
			l.Errorf("what was live before has become %v", again)
		}
		changed := contentOf("changed")
		changed.Name = l.policy
		_, err = l.UpdatePolicy(l.as("token:dan"), &adminpb.UpdatePolicyRequest{Policy: changed})
		l.check(err)
		for range 2 { // the same content of another caller, who has it from then on
			_, err = l.UpdatePolicy(l.as("token:eve"), &adminpb.UpdatePolicyRequest{Policy: changed})
			l.check(err)
		}
		if diff := cmp.Diff([]string{"update by token:dan", "update by token:eve"}, how(l.live(l.policy))); diff != "" {
			l.Error(diff)
		}

		list, err := l.ListPolicyRevisions(ctx, &adminpb.ListPolicyRevisionsRequest{Parent: l.policy})
		l.check(err)
		for _, r := range list.PolicyRevisions {
			if len(r.Activations) == 0 || r.Report != nil {
				l.Errorf("a list has %v", r)
			}
		}
	})
}

// TestPromotedRevisionsNameTheirSource: the same content in the next location says where it
// came from.
func TestPromotedRevisionsNameTheirSource(t *testing.T) {
	onEachStore(t, "p-promoted", func(l *library) {
		next := strings.TrimSuffix(l.location, "l1") + "l2"
		_, err := l.UpdateConfig(l.Context(), &adminpb.UpdateConfigRequest{Config: &adminpb.Config{Name: l.location + "/config", NextLocation: next}})
		l.check(err)
		_, err = l.PromotePolicies(l.as("token:ann"), &adminpb.PromotePoliciesRequest{
			Parent: l.location, Destination: next, Policies: []*adminpb.PromotedPolicy{{Revision: l.live(l.policy).Name}},
		})
		l.check(err)
		promoted := l.live(next + "/policies/web")
		if diff := cmp.Diff([]string{"promote by token:ann from " + l.location}, how(promoted)); diff != "" {
			l.Error(diff)
		}
		if got, want := promoted.Activations[0].SourceRevision, l.live(l.policy).Name; got != want {
			l.Errorf("its source is %s, want %s", got, want)
		}
	})
}

// TestActivationsAreBounded: a policy that goes back and forth keeps the first time, and the
// last ones.
func TestActivationsAreBounded(t *testing.T) {
	onEachStore(t, "p-bounded", func(l *library) {
		first := l.live(l.policy)
		for i := range 9 {
			changed := contentOf("changed")
			changed.Name = l.policy
			_, err := l.UpdatePolicy(l.Context(), &adminpb.UpdatePolicyRequest{Policy: changed})
			l.check(err)
			_, err = l.RollbackPolicy(l.as(fmt.Sprintf("token:t%d", i)), &adminpb.RollbackPolicyRequest{Name: first.Name})
			l.check(err)
		}
		want := []string{"create by "}
		for i := 2; i < 9; i++ {
			want = append(want, fmt.Sprintf("rollback by token:t%d", i))
		}
		if diff := cmp.Diff(want, how(l.live(l.policy))); diff != "" {
			l.Error(diff)
		}
	})
}

// TestARevisionFitsEveryClient: the largest policy with the largest report, and as many
// activations as there may be, is less than gRPC receives by default.
func TestARevisionFitsEveryClient(t *testing.T) {
	store := newBoltStore(t)
	server, err := admin.NewServer(admin.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	id := strings.Repeat("i", 63)
	location := "projects/" + id + "/locations/" + strings.Repeat("l", 255)
	l := &library{t, server, store.(stores), location, location + "/policies/" + id}
	member := "oidc:" + strings.Repeat("m", access.MaxMember-5)
	_, err = l.CreatePolicy(l.as(member), &adminpb.CreatePolicyRequest{Parent: location, PolicyId: id, Policy: &adminpb.Policy{}})
	l.check(err)
	first := l.live(l.policy)
	_, err = l.CreatePolicyExperiment(l.as(member), &adminpb.CreatePolicyExperimentRequest{
		Parent: l.policy, PolicyExperimentId: id, PolicyExperiment: &adminpb.PolicyExperiment{Policy: largestPolicy(l.policy)},
	})
	l.check(err)
	l.publish(id, largestPair())
	l.commitAs(member, id)
	largest := l.live(l.policy)
	for range 8 {
		for _, to := range []string{first.Name, largest.Name} {
			_, err = l.RollbackPolicy(l.as(member), &adminpb.RollbackPolicyRequest{Name: to})
			l.check(err)
		}
	}
	r := l.live(l.policy)
	size, activations, differences := proto.Size(r), len(r.Activations), len(r.Report.GetDifferences())
	if size > 4<<20 || activations != 8 || differences < 50 {
		t.Errorf("a revision with %d activations and %d differences has %d bytes", activations, differences, size)
	}
	if r, err := l.ListPolicyRevisions(l.Context(), &adminpb.ListPolicyRevisionsRequest{Parent: l.policy}); err != nil || proto.Size(r) > 64<<10 {
		t.Errorf("the list of revisions has %d bytes, %v", proto.Size(r), err)
	}
}

// largestPolicy is one of the largest size that a policy may have as that of an experiment.
func largestPolicy(name string) *adminpb.Policy {
	p := &adminpb.Policy{Name: name}
	fill := func(n int) int {
		p.Data = &structpb.Struct{Fields: map[string]*structpb.Value{"text": structpb.NewStringValue(strings.Repeat("x", n))}}
		return proto.Size(&adminpb.PolicyExperiment{Policy: p})
	}
	fill(2*content.DefaultPolicySize - fill(content.DefaultPolicySize))
	return p
}

// largestPair is evidence of more than a report has room for.
func largestPair() *evidencepb.Pair {
	pair := &evidencepb.Pair{Counts: &evidencepb.Counts{NewlyDenied: 400}}
	for i := range 400 {
		pair.Groups = append(pair.Groups, &evidencepb.Group{
			Kind: int32(adminpb.Report_NEWLY_DENIED), Method: "GET", Pattern: fmt.Sprintf("/%d/%s", i, strings.Repeat("p", 200)),
			Reason: strings.Repeat("r", 200), Count: 1, Examples: []*evidencepb.Example{{Path: strings.Repeat("e", 500)}},
		})
	}
	return pair
}

// TestACommitDoesNotNeedEvidence: where nothing is required, evidence that cannot be read
// leaves no report behind, and stops no commit.
func TestACommitDoesNotNeedEvidence(t *testing.T) {
	onEachStore(t, "p-lost", func(l *library) {
		ctx := l.Context()
		e, err := l.GetPolicyExperiment(ctx, &adminpb.GetPolicyExperimentRequest{Name: l.policy + "/experiments/e1"})
		l.check(err)
		_, err = l.store.Publish(ctx, l.location+"/nodes/n1", []authz.PublishedEvidence{
			{Experiment: e.Name, UID: e.Uid, Tally: "t", Serial: 1, Value: []byte("\xff")},
		})
		l.check(err)
		l.commitAs("token:ann", "e1")
		committed := l.live(l.policy)
		if committed.Report != nil || len(committed.Activations) != 1 {
			l.Errorf("the revision is %v", committed)
		}
		list, err := l.ListOperations(ctx, &longrunningpb.ListOperationsRequest{Name: l.location, Filter: "metadata.verb = commit"})
		l.check(err)
		if len(list.Operations) != 1 {
			l.Errorf("%d commits are listed, want 1", len(list.Operations))
		}
	})
}
