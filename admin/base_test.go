package admin_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"understudy/admin"
	adminpb "understudy/admin/v1"
)

// tried is an experiment of the policy of a library.
func (l *library) tried(id string, rego string) *adminpb.PolicyExperiment {
	policy := contentOf("tried")
	policy.Name, policy.Modules = l.policy, map[string]string{"a.rego": "package envoy.authz\n" + rego}
	return &adminpb.PolicyExperiment{Name: l.policy + "/experiments/" + id, Policy: policy}
}

// makeLive updates the policy of a library.
func (l *library) makeLive(rego string) {
	l.Helper()
	policy := contentOf("live")
	policy.Name, policy.Modules = l.policy, map[string]string{"a.rego": "package envoy.authz\n" + rego}
	_, err := l.UpdatePolicy(l.as("token:ann"), &adminpb.UpdatePolicyRequest{Policy: policy})
	l.check(err)
}

// TestBase: an experiment remembers the live policy that it was made from until another revision is named, and its
// report has what the live policy has changed since.
func TestBase(t *testing.T) {
	onEachStore(t, "p-base", func(l *library) {
		ctx := l.Context()
		read := func() *adminpb.PolicyExperiment {
			l.Helper()
			e, err := l.GetPolicyExperiment(ctx, &adminpb.GetPolicyExperimentRequest{Name: l.policy + "/experiments/base"})
			l.check(err)
			return e
		}
		takenBack := func(want int64) *adminpb.Report {
			l.Helper()
			r, err := l.GetReport(ctx, &adminpb.GetReportRequest{Name: l.policy + "/experiments/base/report"})
			l.check(err)
			if r.TakenBackCount == nil || r.GetTakenBackCount() != want || len(r.TakenBackChanges) != int(want) || r.BaseRevision != read().BaseRevision {
				l.Errorf("it takes back %v changes of the live policy, which are %v, want %d", r.TakenBackCount, r.TakenBackChanges, want)
			}
			return r
		}
		update := func(e *adminpb.PolicyExperiment, paths ...string) error {
			l.Helper()
			_, err := l.UpdatePolicyExperiment(ctx, &adminpb.UpdatePolicyExperimentRequest{
				PolicyExperiment: e, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths},
			})
			return err
		}

		l.makeLive("allow if input.a == 1")
		first := l.live(l.policy).Name
		_, err := l.CreatePolicyExperiment(ctx, &adminpb.CreatePolicyExperimentRequest{
			Parent: l.policy, PolicyExperimentId: "base", PolicyExperiment: l.tried("base", "allow if input.a == 1\nallow if input.b"),
		})
		l.check(err)
		_, err = l.StartPreviewPolicyExperiment(ctx, &adminpb.StartPreviewPolicyExperimentRequest{Name: read().Name})
		l.check(err)
		before := read()
		if before.BaseRevision != first {
			l.Errorf("the base is %q, want the live revision %q", before.BaseRevision, first)
		}
		takenBack(0)

		l.makeLive("allow if { input.a == 1; not input.c }")
		r := takenBack(1)
		if c := r.TakenBackChanges[0]; c.State != adminpb.Report_TakenBackChange_TAKEN_BACK || c.PolicyText != "not input.c" || r.PolicyActivation.GetCreator() != "token:ann" {
			l.Errorf("it is %v, by %v", c, r.PolicyActivation)
		}
		takenBack(1) // what is kept says the same as what was compared
		_, err = l.CommitPolicyExperiment(ctx, &adminpb.CommitPolicyExperimentRequest{
			Name: before.Name, Etag: before.Etag, Requirements: &adminpb.CommitRequirements{MaxFailedCount: new(int64)},
		})
		if status.Code(err) != codes.FailedPrecondition {
			l.Errorf("a commit that takes something back has the error %v", err)
		}

		// An update of all fields, none of which is the base, leaves it alone.
		l.check(update(l.tried("base", "allow if input.a == 1\nallow if input.d"), "*"))
		if e := read(); e.BaseRevision != first || e.Etag == before.Etag {
			l.Errorf("after an update the base is %q, and the etag %s", e.BaseRevision, e.Etag)
		}
		takenBack(1)

		// The base alone leaves content and preview alone.
		_, err = l.StartPreviewPolicyExperiment(ctx, &adminpb.StartPreviewPolicyExperimentRequest{Name: read().Name})
		l.check(err)
		before = read()
		moved := &adminpb.PolicyExperiment{Name: before.Name, BaseRevision: l.live(l.policy).Name}
		l.check(update(moved, "base_revision"))
		if e := read(); e.BaseRevision != moved.BaseRevision || e.Etag != before.Etag || e.PreviewMetadata.State != adminpb.PolicyPreviewMetadata_ACTIVE {
			l.Errorf("with another base it is %v", e)
		}
		takenBack(0)

		// Back to the first one, and to one that is none.
		moved.BaseRevision = first
		l.check(update(moved, "base_revision"))
		takenBack(1)
		for _, none := range []string{l.policy + "/revisions/none", l.location + "/policies/other/revisions/none", "none"} {
			moved.BaseRevision = none
			if err := update(moved, "base_revision"); status.Code(err) != codes.InvalidArgument {
				l.Errorf("the base %q has the error %v", none, err)
			}
		}

		// The next one of the name has a base of its own.
		_, err = l.DeletePolicyExperiment(ctx, &adminpb.DeletePolicyExperimentRequest{Name: before.Name})
		l.check(err)
		_, err = l.CreatePolicyExperiment(ctx, &adminpb.CreatePolicyExperimentRequest{
			Parent: l.policy, PolicyExperimentId: "base", PolicyExperiment: l.tried("base", "allow if input.a == 1"),
		})
		l.check(err)
		if e := read(); e.BaseRevision != l.live(l.policy).Name {
			l.Errorf("the base is %q, want the live revision", e.BaseRevision)
		}
		takenBack(0)
	})
}

// TestLostBase: an experiment whose base is lost or damaged takes back what the live policy has changed, whatever that
// is, until its base is named again.
func TestLostBase(t *testing.T) {
	onEachStore(t, "p-lost-base", func(l *library) {
		ctx := l.Context()
		l.makeLive("allow if input.a == 1")
		_, err := l.CreatePolicyExperiment(ctx, &adminpb.CreatePolicyExperimentRequest{
			Parent: l.policy, PolicyExperimentId: "base", PolicyExperiment: l.tried("base", "allow if input.a == 1\nallow if input.b"),
		})
		l.check(err)
		e, err := l.GetPolicyExperiment(ctx, &adminpb.GetPolicyExperimentRequest{Name: l.policy + "/experiments/base"})
		l.check(err)
		takenBack := func(want ...adminpb.Report_TakenBackChange_State) {
			l.Helper()
			r, err := l.GetReport(ctx, &adminpb.GetReportRequest{Name: e.Name + "/report"})
			l.check(err)
			var got []adminpb.Report_TakenBackChange_State
			for _, c := range r.TakenBackChanges {
				got = append(got, c.State)
			}
			if r.TakenBackCount == nil || !slices.Equal(got, want) {
				l.Errorf("it takes back %v changes, %v, want %v", r.TakenBackCount, got, want)
			}
		}
		name := func() {
			l.Helper()
			_, err := l.UpdatePolicyExperiment(ctx, &adminpb.UpdatePolicyExperimentRequest{
				PolicyExperiment: &adminpb.PolicyExperiment{Name: e.Name, BaseRevision: e.BaseRevision},
				UpdateMask:       &fieldmaskpb.FieldMask{Paths: []string{"base_revision"}},
			})
			l.check(err)
		}
		write := func(w admin.Write) {
			l.Helper()
			_, err := l.store.Commit(ctx, admin.Txn{ID: uuid.NewString(), Project: admin.Key(l.policy).Project(), Writes: []admin.Write{w}})
			l.check(err)
		}
		base := admin.Key(l.policy + "/bases/base")
		for _, lost := range []admin.Write{admin.Delete{Key: base}, admin.Put{Key: base, Value: []byte(notAMessage), Etag: "e"}} {
			l.makeLive("allow if input.a == 1")
			name()
			write(lost)
			takenBack()
			l.makeLive("allow if { input.a == 1; not input.c }")
			takenBack(adminpb.Report_TakenBackChange_OVERRIDDEN)
			name()
			takenBack(adminpb.Report_TakenBackChange_TAKEN_BACK)
		}

		// A base that the experiment does not name counts.
		records, err := l.store.Get(ctx, admin.Key(e.Name))
		l.check(err)
		unnamed, err := admin.Decode(records[0], &adminpb.PolicyExperiment{})
		l.check(err)
		unnamed.BaseRevision = ""
		put, err := admin.NewPut(records[0].Key, unnamed.Etag, unnamed)
		l.check(err)
		write(put)
		takenBack(adminpb.Report_TakenBackChange_TAKEN_BACK)
	})
}
