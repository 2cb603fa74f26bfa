package content

import (
	"errors"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"understudy/admin/aip"
	"understudy/admin/apierror"
	adminpb "understudy/admin/v1"
)

// ParseMask parses the mask of an update; without one, all populated fields of the
// body are meant (AIP-134).
func ParseMask(mask *fieldmaskpb.FieldMask, body proto.Message) (aip.Mask, error) {
	if len(mask.GetPaths()) == 0 {
		return aip.PopulatedMask(body), nil
	}
	parsed, err := aip.ParseMask(mask.GetPaths(), body.ProtoReflect().Descriptor())
	if err != nil {
		return aip.Mask{}, apierror.Invalid(apierror.ReasonInvalidUpdateMask, "update_mask", err.Error())
	}
	return parsed, nil
}

// ApplyMask changes a resource as the mask says. field is its path in the request.
func ApplyMask(field apierror.Field, mask aip.Mask, resource, body proto.Message) error {
	err := mask.Apply(resource, body)
	var mistake *aip.Error
	if errors.As(err, &mistake) && mistake.Immutable {
		return apierror.Invalid(apierror.ReasonImmutable, field+"."+apierror.Field(mistake.Path), mistake.Error())
	}
	if err != nil {
		return apierror.Invalid(apierror.ReasonInvalidUpdateMask, "update_mask", err.Error())
	}
	return nil
}

// ApplyExperimentMask is ApplyMask for an experiment, which cannot lose its policy.
func ApplyExperimentMask(mask aip.Mask, experiment, body *adminpb.PolicyExperiment) error {
	if mask.Has("policy") && body.GetPolicy() == nil {
		return RequirePolicy(body)
	}
	return ApplyMask("policy_experiment", mask, experiment, body)
}
