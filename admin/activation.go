package admin

import (
	"context"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin/access"
	"understudy/admin/history"
	adminpb "understudy/admin/v1"
)

// maxActivations is how many times a revision keeps of those at which its content became
// live: the first one, and the last ones. Together with the report it has to leave a revision
// small enough for every client (see the comment of Policy).
const maxActivations = 8

// activation says how the content of a policy becomes live. Its revision keeps that.
type activation struct {
	verb Verb
	// experiment is the one that is committed, and source the revision that is promoted.
	experiment, source Key
	// report is what the preview of the experiment had shown; nil if that is not known.
	report *adminpb.Report
}

// addTo adds the activation to those of a revision, for the caller.
func (a activation) addTo(ctx context.Context, revision *adminpb.PolicyRevision, live *adminpb.Policy) {
	all := append([]*adminpb.PolicyRevision_Activation{{
		Verb: string(a.verb), ActivateTime: live.UpdateTime, Creator: access.FromContext(ctx).Member,
		Experiment: string(a.experiment), SourceRevision: string(a.source), AcceptanceCount: int32(len(a.report.GetAcceptances())),
	}}, revision.Activations...)
	if first := len(all) - 1; first >= maxActivations {
		all = append(all[:maxActivations-1], all[first])
	}
	revision.Activations = all
	if a.report != nil {
		revision.Report = a.report
	}
}

// unchangedPolicy is the change of an update to the content that is live. If another caller or another method made
// it live, its revision keeps this update as well: what the caller replaces next is content that the caller has.
func (s *Server) unchangedPolicy(ctx context.Context, stored StoredPolicy) (*Change, error) {
	c := UnchangedResource(VerbUpdate, stored.Record, stored.Policy)
	revision, err := s.storedRevision(ctx, Key(stored.Policy.Revision))
	if err != nil || revision == nil || history.IsAppliedBy(access.FromContext(ctx).Member, revision) {
		return c, err
	}
	policy := proto.CloneOf(stored.Policy)
	policy.UpdateTime = timestamppb.New(s.now())
	activation{verb: VerbUpdate}.addTo(ctx, revision, policy)
	put, err := NewPut(Key(stored.Policy.Revision), "", revision)
	c.Writes = []Write{put}
	return c, err
}
