package admin

import (
	"errors"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"understudy/admin/aip"
	adminpb "understudy/admin/v1"
)

// parseMask parses the mask of an update; without one, all populated fields of the
// body are meant (AIP-134).
func parseMask(mask *fieldmaskpb.FieldMask, body proto.Message) (aip.Mask, error) {
	if len(mask.GetPaths()) == 0 {
		return aip.PopulatedMask(body), nil
	}
	parsed, err := aip.ParseMask(mask.GetPaths(), body.ProtoReflect().Descriptor())
	if err != nil {
		return aip.Mask{}, invalid(reasonInvalidUpdateMask, violation{"update_mask", err.Error()})
	}
	return parsed, nil
}

// applyMask changes a resource as the mask says. field is its path in the request.
func applyMask(field string, mask aip.Mask, resource, body proto.Message) error {
	err := mask.Apply(resource, body)
	var mistake *aip.Error
	if errors.As(err, &mistake) && mistake.Immutable {
		return invalid(reasonImmutable, violation{field + "." + mistake.Path, mistake.Error()})
	}
	if err != nil {
		return invalid(reasonInvalidUpdateMask, violation{"update_mask", err.Error()})
	}
	return nil
}

// applyExperimentMask is applyMask for an experiment, which cannot lose its policy.
func applyExperimentMask(mask aip.Mask, experiment, body *adminpb.PolicyExperiment) error {
	if mask.Has("policy") && body.GetPolicy() == nil {
		return requirePolicy(body)
	}
	return applyMask("policy_experiment", mask, experiment, body)
}
