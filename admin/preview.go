package admin

import (
	"context"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin/apierror"
	"understudy/admin/content"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// StartPreviewPolicyExperiment makes an experiment ACTIVE, whatever it was before,
// and sets its start_time to now (AIP-236).
func (s *Server) StartPreviewPolicyExperiment(
	ctx context.Context, r *adminpb.StartPreviewPolicyExperimentRequest,
) (*longrunningpb.Operation, error) {
	return s.setPreview(ctx, VerbStartPreview, r, func(e *adminpb.PolicyExperiment) error {
		if e.PreviewMetadata == nil {
			e.PreviewMetadata = &adminpb.PolicyPreviewMetadata{}
		}
		e.PreviewMetadata.State = adminpb.PolicyPreviewMetadata_ACTIVE
		e.PreviewMetadata.LogPrefix = authz.LogPrefix
		e.PreviewMetadata.StartTime = e.UpdateTime
		return nil
	})
}

// StopPreviewPolicyExperiment makes an experiment SUSPENDED and sets its stop_time
// to now (AIP-236). One that was never started has nothing to stop.
func (s *Server) StopPreviewPolicyExperiment(
	ctx context.Context, r *adminpb.StopPreviewPolicyExperimentRequest,
) (*longrunningpb.Operation, error) {
	return s.setPreview(ctx, VerbStopPreview, r, func(e *adminpb.PolicyExperiment) error {
		if e.PreviewMetadata == nil {
			return apierror.Precondition(Key(e.Name), apierror.ReasonPreviewNotStarted, "Its preview was never started.")
		}
		e.PreviewMetadata.State = adminpb.PolicyPreviewMetadata_SUSPENDED
		e.PreviewMetadata.StopTime = e.UpdateTime
		return nil
	})
}

// previewRequest is what the requests to start and to stop have in common.
type previewRequest interface {
	GetName() string
	GetEtag() string
	GetValidateOnly() bool
}

// setPreview changes the preview of an experiment and leaves its etag alone.
func (s *Server) setPreview(
	ctx context.Context, v Verb, r previewRequest, set func(*adminpb.PolicyExperiment) error,
) (*longrunningpb.Operation, error) {
	name, err := experimentKind.parse("name", r.GetName())
	if err != nil {
		return nil, err
	}
	return s.Mutate(ctx, r.GetValidateOnly(), func(ctx context.Context) (*Change, error) {
		stored, err := s.readExperiment(ctx, name)
		if err != nil {
			return nil, err
		}
		if !stored.exists() {
			return nil, apierror.NotFound(name)
		}
		if stored.damage != nil {
			return nil, stored.damage
		}
		if err := matchEtag(name, r.GetEtag(), stored.experiment.Etag); err != nil {
			return nil, err
		}
		experiment := proto.CloneOf(stored.experiment)
		experiment.UpdateTime = timestamppb.New(s.now())
		if err := set(experiment); err != nil {
			return nil, err
		}
		write, err := NewPut(Key(experiment.Name), experiment.Etag, experiment)
		if err != nil {
			return nil, err
		}
		return &Change{
			Target:     name,
			Verb:       v,
			Conditions: []Condition{stored.unchanged()},
			Writes:     []Write{write},
			before:     stored.record.Etag,
			after:      experiment.Etag,
			Response:   experiment,
		}, nil
	})
}

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
		return nil, apierror.Invalid(apierror.ReasonEtagRequired, "etag",
			"A commit requires the etag of the experiment as it was previewed. Get the experiment to see it.")
	}
	if err := content.CheckRequirements("requirements", r.GetRequirements()); err != nil {
		return nil, err
	}
	return s.Mutate(ctx, r.GetValidateOnly(), func(ctx context.Context) (*Change, error) {
		stored, guard, err := s.readGuarded(ctx, name, s.Get)
		if err != nil {
			return nil, err
		}
		if err := checkCommit(stored, r); err != nil {
			return nil, err
		}
		config, err := s.AsConfig(ctx, configFor(name), guard)
		if err != nil {
			return nil, err
		}
		judged, err := s.checkRequirements(ctx, stored, config, r.GetRequirements())
		if err != nil {
			return nil, err
		}
		c, err := s.commitment(ctx, stored, judged)
		if err != nil {
			return nil, err
		}
		// A guard that was tightened meanwhile holds for this commit, too; so does an edit that was
		// taken back, by whose author the etag does not differ, and an acceptance that was.
		c.Conditions = append(c.Conditions, config.Unchanged(), stored.unchanged(), stored.acceptances.unchanged())
		return c, nil
	})
}

// checkCommit checks what the caller expects, in the order in which errors are reported.
func checkCommit(stored storedExperiment, r *adminpb.CommitPolicyExperimentRequest) error {
	if err := stored.readable(); err != nil {
		return err
	}
	if err := matchEtag(stored.name, r.GetEtag(), stored.experiment.Etag); err != nil {
		return err
	}
	if given, current := r.GetParentEtag(), stored.parent.Policy.Etag; given != "" && given != current {
		return apierror.EtagMismatch(stored.name.Policy(), apierror.ReasonParentEtagMismatch, apierror.Versions{Given: given, Current: current})
	}
	return nil
}

// commitment works out a commit. The live policy keeps its identity; only content
// comes from the experiment. The report stays with its revision.
func (s *Server) commitment(ctx context.Context, stored storedExperiment, judged *adminpb.Report) (*Change, error) {
	live := content.Basic(stored.parent.Policy) // all but the content, which is replaced
	content.Copy(live, stored.experiment.Policy)
	live.UpdateTime = timestamppb.New(s.now())
	if err := content.CheckDepth("policy_experiment.policy", live, stored.parent.Policy); err != nil {
		return nil, err
	}
	if err := s.compile(ctx, "policy_experiment.policy", live); err != nil {
		return nil, err
	}
	if err := NameContent(live, ""); err != nil {
		return nil, err
	}
	c, err := s.policyReplacement(ctx, activation{verb: VerbCommit, experiment: stored.name, report: judged}, stored.parent, live)
	if err != nil {
		return nil, err
	}
	c.Target = stored.name
	c.Conditions = append(c.Conditions, Exists{stored.name, stored.experiment.Etag})
	c.Writes = append(c.Writes, experimentDeletions(stored.name)...)
	c.ended = []EvidenceName{stored.evidence()}
	c.report = judged
	c.Response = &emptypb.Empty{}
	return c, nil
}
