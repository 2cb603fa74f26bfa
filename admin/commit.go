package admin

import (
	"cmp"
	"context"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminpb "understudy/admin/v1"
)

// CommitPolicyExperiment copies an experiment's policy over the live policy and
// deletes the experiment, in one transaction (AIP-236). The etag is required, so
// that nobody commits a version that he has not seen.
func (s *Server) CommitPolicyExperiment(
	ctx context.Context, r *adminpb.CommitPolicyExperimentRequest,
) (*longrunningpb.Operation, error) {
	name, err := experimentKind.parse("name", r.GetName())
	if err != nil {
		return nil, err
	}
	if r.GetEtag() == "" {
		return nil, invalid(reasonEtagRequired, violation{"etag",
			"A commit requires the etag of the experiment as it was previewed. Get the experiment to see it."})
	}
	if err := unimplementedRequirements(r.GetRequirements()); err != nil {
		return nil, err
	}
	return s.mutate(ctx, r.GetValidateOnly(), func(ctx context.Context) (*change, error) {
		stored, err := s.readExperiment(ctx, name)
		if err != nil {
			return nil, err
		}
		if err := checkCommit(stored, r); err != nil {
			return nil, err
		}
		return s.commitment(ctx, stored)
	})
}

// checkCommit checks what the caller expects, in the order in which it is told.
func checkCommit(stored storedExperiment, r *adminpb.CommitPolicyExperimentRequest) error {
	if !stored.exists() || !stored.parent.live() {
		return notFound(stored.name)
	}
	if err := cmp.Or(stored.damage, stored.parent.damage); err != nil {
		return err
	}
	if err := matchEtag(stored.name, r.GetEtag(), stored.experiment.Etag); err != nil {
		return err
	}
	if given, current := r.GetParentEtag(), stored.parent.policy.Etag; given != "" && given != current {
		return etagMismatch(stored.name.policy(), reasonParentEtagMismatch, given, current)
	}
	return nil
}

// commitment works out a commit. The live policy keeps its identity; only content
// comes from the experiment.
func (s *Server) commitment(ctx context.Context, stored storedExperiment) (*change, error) {
	live := proto.CloneOf(stored.parent.policy)
	copyContent(live, stored.experiment.Policy)
	live.UpdateTime = timestamppb.New(s.now())
	if err := checkDepth("policy_experiment.policy", live, stored.parent.policy); err != nil {
		return nil, err
	}
	if err := s.compile(ctx, "policy_experiment.policy", live); err != nil {
		return nil, err
	}
	if err := nameContent(live, ""); err != nil {
		return nil, err
	}
	c, err := s.policyReplacement(ctx, verbCommit, stored.parent, live)
	if err != nil {
		return nil, err
	}
	c.target = stored.name
	c.conditions = append(c.conditions, Exists{stored.name, stored.experiment.Etag})
	c.writes = append(c.writes, Delete{stored.name})
	c.response = &emptypb.Empty{}
	return c, nil
}
