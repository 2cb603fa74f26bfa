package admin

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin/aip"
	"understudy/admin/apierror"
	"understudy/admin/content"
	adminpb "understudy/admin/v1"
)

// What can be done with a resource whose record cannot be read: it was damaged, or another
// version wrote it. It is DATA_LOSS to anyone who needs its content, and nothing to all others:
// lists name it in `unreachable` (AIP-217). It can be replaced as a whole, and deleted.

// Nothing here guesses at lost content: a replacement needs all fields from the caller. An
// etag, if one is given, is compared with that of the record, so that nobody overwrites a
// version that has been repaired meanwhile.

// damaged is DATA_LOSS of a resource that is stored and cannot be read. The cause is for
// the log.
func (s *Server) damaged(ctx context.Context, name Key, cause error) error {
	s.log.ErrorContext(ctx, "a stored record cannot be read", "resource", string(name), "error", cause)
	hint := damageHints[name.Type()]
	return apierror.New(codes.DataLoss, apierror.ReasonDamaged,
		fmt.Sprintf("Resource '%s' is stored, but its record cannot be read: it was damaged, or written by another version. %s", name, hint),
		apierror.Facts{"resource": string(name), "hint": hint},
		&errdetails.ResourceInfo{ResourceType: name.Type(), ResourceName: string(name)})
}

const replaceOrDelete = "Delete it, which is for good, or replace all of it by an update with the update_mask `*`."

// damageHints say what to do, by type of resource.
var damageHints = map[string]string{
	policyKind.resourceType: "Delete it, which is for good, replace all of it by an update with the update_mask `*`, " +
		"or roll it back to a revision.",
	experimentKind.resourceType: replaceOrDelete,
	configKind.resourceType:     "Replace all of it by an update with the update_mask `*`.",
	revisionKind.resourceType:   "It goes when its policy is purged or deleted for good, and is stored again when its content becomes live.",
	reportKind.resourceType: "What a running sidecar published is replaced when it publishes next. Otherwise delete the experiment and " +
		"create it again: its evidence begins anew.",
	acceptanceKind.resourceType: "Accept what is to be accepted again: that takes the place of all acceptances of the experiment.",
	datasetKind.resourceType:    replaceOrDelete,
	versionKind.resourceType:    "Upload the content again.",
	operationKind.resourceType:  "Delete it; what it was about is done or not done all the same.",
}

// damagedPolicyUpdate works out the replacement of a policy that cannot be read, by an
// update of all fields. Its revisions and experiments stay; who it was is lost.
func (s *Server) damagedPolicyUpdate(
	ctx context.Context, stored StoredPolicy, given *adminpb.Policy, mask aip.Mask,
) (*Change, error) {
	name := stored.Record.Key
	switch {
	case !mask.All():
		return nil, stored.Damage
	case !stored.Live():
		return nil, policyDeleted(name)
	}
	if err := matchEtag(name, given.GetEtag(), stored.Record.Etag); err != nil {
		return nil, err
	}
	now := timestamppb.New(s.now())
	policy := &adminpb.Policy{Name: string(name), Uid: NewID(), CreateTime: now, UpdateTime: now}
	if err := content.ApplyMask("policy", mask, policy, given); err != nil {
		return nil, err
	}
	if err := s.ValidatePolicy(ctx, "policy", policy, nil); err != nil {
		return nil, err
	}
	if err := NameContent(policy, ""); err != nil {
		return nil, err
	}
	return s.policyReplacement(ctx, activation{verb: VerbUpdate}, stored, policy)
}

// damagedPolicyDeletion works out the deletion of a policy that cannot be read, with all
// that belongs to it: nothing could restore it, so its ID is free at once.
func (s *Server) damagedPolicyDeletion(stored StoredPolicy) *Change {
	name, now := stored.Record.Key, timestamppb.New(s.now())
	return &Change{
		Target:     name,
		Verb:       VerbDelete,
		Conditions: []Condition{stored.Unchanged()},
		Writes: append(experimentsDeletions(name),
			Delete{name}, DeleteCollection{name.In("revisions")}, DeleteCollection{name.iam()}),
		before:   stored.Record.Etag,
		Response: &adminpb.Policy{Name: string(name), DeleteTime: now, PurgeTime: now},
	}
}

// damagedExperimentUpdate works out the replacement of an experiment that cannot be read,
// by an update of all fields.
func (s *Server) damagedExperimentUpdate(
	ctx context.Context, stored storedExperiment, given *adminpb.PolicyExperiment, mask aip.Mask,
) (*Change, error) {
	if !mask.All() {
		return nil, stored.damage
	}
	if err := matchEtag(stored.name, given.GetEtag(), stored.record.Etag); err != nil {
		return nil, err
	}
	if err := content.RequirePolicy(given); err != nil {
		return nil, err
	}
	experiment, err := s.newExperiment(ctx, stored.name, given)
	if err != nil {
		return nil, err
	}
	now := timestamppb.New(s.now())
	experiment.Uid, experiment.CreateTime, experiment.UpdateTime = NewID(), now, now
	c, err := experimentReplacement(VerbUpdate, stored, experiment)
	if err == nil && experiment.BaseRevision != "" {
		err = s.rebase(ctx, c, stored, experiment)
	}
	return c, err
}

// errListed is the cause of a resource that a list has found unreadable.
var errListed = errors.New("it cannot be decoded")
