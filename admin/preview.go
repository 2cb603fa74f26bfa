package admin

import (
	"context"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// StartPreviewPolicyExperiment makes an experiment ACTIVE, whatever it was before,
// and sets its start_time to now (AIP-236).
func (s *Server) StartPreviewPolicyExperiment(
	ctx context.Context, r *adminpb.StartPreviewPolicyExperimentRequest,
) (*longrunningpb.Operation, error) {
	return s.setPreview(ctx, verbStartPreview, r, func(e *adminpb.PolicyExperiment) error {
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
	return s.setPreview(ctx, verbStopPreview, r, func(e *adminpb.PolicyExperiment) error {
		if e.PreviewMetadata == nil {
			return precondition(Key(e.Name), reasonPreviewNotStarted, "Its preview was never started.")
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
	ctx context.Context, v verb, r previewRequest, set func(*adminpb.PolicyExperiment) error,
) (*longrunningpb.Operation, error) {
	name, err := experimentKind.parse("name", r.GetName())
	if err != nil {
		return nil, err
	}
	return s.mutate(ctx, r.GetValidateOnly(), func(ctx context.Context) (*change, error) {
		stored, err := s.readExperiment(ctx, name)
		if err != nil {
			return nil, err
		}
		if !stored.exists() {
			return nil, notFound(name)
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
		write, err := put(experiment.Name, experiment.Etag, experiment)
		if err != nil {
			return nil, err
		}
		return &change{
			target:     name,
			verb:       v,
			conditions: []Condition{stored.unchanged()},
			writes:     []Write{write},
			response:   experiment,
		}, nil
	})
}
