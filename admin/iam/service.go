package iam

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"cloud.google.com/go/iam/apiv1/iampb"
	"google.golang.org/protobuf/proto"

	"understudy/admin"
	"understudy/admin/access"
	"understudy/admin/apierror"
	"understudy/admin/audit"
	adminpb "understudy/admin/v1"
)

// Config is what a Service needs.
type Config struct {
	// Admin keeps the resources and their bindings. Required.
	Admin *admin.Server
	// Authorizer answers what a caller may. Nil if there is no authentication: then
	// everybody may everything, and bindings are kept for when there is.
	Authorizer access.Authorizer
	// Logger gets the causes of errors, which callers do not see. Nil means none.
	Logger *slog.Logger
}

// Service implements google.iam.v1.IAMPolicy. It checks no permission itself: the
// chain before the services does. It is safe for concurrent use.
type Service struct {
	iampb.UnimplementedIAMPolicyServer

	admin      *admin.Server
	authorizer access.Authorizer
	log        *slog.Logger
}

var _ iampb.IAMPolicyServer = (*Service)(nil)

// New returns a Service.
func New(c Config) (*Service, error) {
	if c.Admin == nil {
		return nil, errors.New("iam: Config.Admin is required")
	}
	s := &Service{admin: c.Admin, authorizer: c.Authorizer, log: c.Logger}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s, nil
}

// GetIamPolicy returns the bindings of a project, a location, a policy or a dataset, without those
// that it inherits. What has none has an etag all the same.
func (s *Service) GetIamPolicy(ctx context.Context, r *iampb.GetIamPolicyRequest) (*iampb.Policy, error) {
	resource, err := admin.ParseBound("resource", r.GetResource())
	if err != nil {
		return nil, err
	}
	if err := checkVersion("options.requested_policy_version", r.GetOptions().GetRequestedPolicyVersion()); err != nil {
		return nil, err
	}
	_, b, err := s.read(ctx, resource)
	if err != nil {
		return nil, err
	}
	if b.damage != nil {
		return nil, b.unreadable(ctx, s.log)
	}
	return b.policy, nil
}

// errSame says that bindings already are as they should be.
var errSame = errors.New("nothing changes")

// SetIamPolicy replaces the bindings of a project, a location, a policy or a dataset. With an etag it
// is ABORTED unless they are those that the caller has read.
func (s *Service) SetIamPolicy(ctx context.Context, r *iampb.SetIamPolicyRequest) (*iampb.Policy, error) {
	resource, err := admin.ParseBound("resource", r.GetResource())
	if err != nil {
		return nil, err
	}
	wanted, err := parsePolicy(r)
	if err != nil {
		return nil, err
	}
	audit.FromContext(ctx).Resource(string(resource))
	var answer *iampb.Policy
	var before string
	// This may run several times, each after a race that was lost, so it reads everything again.
	err = s.admin.Commit(ctx, resource, func(ctx context.Context) (admin.Txn, error) {
		owner, b, err := s.read(ctx, resource)
		if err != nil {
			return admin.Txn{}, err
		}
		if given := wanted.etag; given != "" && given != b.etag() {
			return admin.Txn{}, apierror.EtagMismatch(resource, apierror.ReasonEtagMismatch, apierror.Versions{Given: given, Current: b.etag()})
		}
		before = b.etag()
		// The audit log gets what changes of whose roles, whatever the caller had sent.
		answer, err = b.with(ctx, s.log, wanted)
		if err != nil {
			return admin.Txn{}, err
		}
		audit.FromContext(ctx).Bindings(deltas(b.policy, answer))
		return s.replacement(owner, b, answer)
	})
	if err != nil && !errors.Is(err, errSame) {
		return nil, err
	}
	audit.FromContext(ctx).Changed(audit.Etags{Before: before, After: base64.StdEncoding.EncodeToString(answer.Etag)})
	return answer, nil
}

// with returns what the bindings become. Those that cannot be read are replaced as a whole.
func (b bindings) with(ctx context.Context, log *slog.Logger, wanted *wantedPolicy) (*iampb.Policy, error) {
	if !wanted.replaces {
		if b.damage != nil {
			return nil, b.unreadable(ctx, log)
		}
		return b.policy, nil
	}
	return &iampb.Policy{Version: version, Bindings: wanted.bindings}, nil
}

// replacement is the Txn that stores bindings, and gives them their etag. The resource is
// as it was read, so that bindings are never left behind by one that is purged meanwhile,
// nor with the expiry of one that is undeleted.
func (s *Service) replacement(owner admin.Record, b bindings, policy *iampb.Policy) (admin.Txn, error) {
	if b.policy != nil {
		policy.Etag = b.policy.Etag
		// Nothing is written, and no sequence number is taken: the etag that others have read stays good.
		if proto.Equal(policy, b.policy) {
			return admin.Txn{}, errSame
		}
	}
	var err error
	if policy.Etag, err = newEtag(b.resource, uidOf(owner), policy); err != nil {
		return admin.Txn{}, err
	}
	put, err := b.put(policy, owner)
	if err != nil {
		return admin.Txn{}, err
	}
	txn := admin.Txn{
		Conditions: []admin.Condition{admin.UnchangedRecord(put.Key, b.record)}, Writes: []admin.Write{put},
	}
	if owner.Key != "" {
		txn.Conditions = append(txn.Conditions, admin.UnchangedRecord(owner.Key, owner))
	}
	return txn, nil
}

// TestIamPermissions returns those of the permissions that the caller has on a project, a
// location, a policy or a dataset, and that apply there. On what is not there, it has none.
func (s *Service) TestIamPermissions(
	ctx context.Context, r *iampb.TestIamPermissionsRequest,
) (*iampb.TestIamPermissionsResponse, error) {
	resource, err := admin.ParseBound("resource", r.GetResource())
	if err != nil {
		return nil, err
	}
	asked, err := parsePermissions(r.GetPermissions())
	if err != nil {
		return nil, err
	}
	response := &iampb.TestIamPermissionsResponse{}
	if there, err := s.exists(ctx, resource); err != nil || !there {
		return response, err
	}
	// Without authentication everybody may everything.
	granted := asked
	if s.authorizer != nil {
		if granted, err = s.authorizer.Permitted(ctx, string(resource), asked); err != nil {
			return nil, err
		}
	}
	for _, p := range granted {
		// An owner has a permission about projects everywhere; on a policy there is nothing that it is about.
		if !p.AppliesTo(string(resource)) {
			continue
		}
		response.Permissions = append(response.Permissions, string(p))
	}
	return response, nil
}

// canBeMissing reports whether a resource is a policy or a dataset. Projects and
// locations are there as soon as they are named, and so are the policies of the reserved
// location: the names of policies in the Policyfile API, of which no policy is live there.
func canBeMissing(resource admin.Key) bool {
	return resource.Policy() != "" && admin.Key(resource.Location()).ID() != admin.ReservedLocation
}

// exists reports whether there is such a resource.
//
// A policy that is soft-deleted exists: who may undelete it has to be known.
func (s *Service) exists(ctx context.Context, resource admin.Key) (bool, error) {
	if !canBeMissing(resource) {
		return true, nil
	}
	records, err := s.admin.Get(ctx, resource)
	return err == nil && records[0].Key != "", err
}

// read reads the bindings of a resource and, if that is a policy, its record. The error is
// NOT_FOUND of one that is not there; one that is soft-deleted has its bindings still.
func (s *Service) read(ctx context.Context, resource admin.Key) (owner admin.Record, b bindings, err error) {
	keys := []admin.Key{admin.IAMPolicyOf(resource)}
	if canBeMissing(resource) {
		keys = append(keys, resource)
	}
	records, err := s.admin.Get(ctx, keys...)
	if err != nil {
		return owner, b, err
	}
	if canBeMissing(resource) {
		if owner = records[1]; owner.Key == "" {
			return owner, b, apierror.NotFound(resource)
		}
	}
	return owner, readBindings(resource, uidOf(owner), records[0]), nil
}

// uidOf returns the UID of the policy or the dataset of a record; empty if there is none or it
// cannot be read.
//
// What is deleted for good and made again has another UID, so an etag of the bindings of the old one is
// none of the new one's.
func uidOf(r admin.Record) string {
	if r.Key == "" {
		return ""
	}
	if admin.IsDataset(r.Key) {
		dataset, err := admin.Decode(r, &adminpb.Dataset{})
		if err != nil {
			return ""
		}
		return dataset.GetUid()
	}
	policy, err := admin.Decode(r, &adminpb.Policy{})
	if err != nil {
		return ""
	}
	return policy.GetUid()
}

// parsePermissions checks the permissions of a test.
func parsePermissions(given []string) ([]access.Permission, error) {
	if len(given) > maxTested {
		return nil, apierror.Invalid(apierror.ReasonInvalidField, "permissions", fmt.Sprintf("There are more than %d. Ask in several calls.", maxTested))
	}
	var out []access.Permission
	for i, text := range given {
		p := access.Permission(text)
		if !access.RoleOwner.Has(p) {
			return nil, apierror.Invalid(apierror.ReasonInvalidField, apierror.Field(fmt.Sprintf("permissions[%d]", i)),
				"There is no such permission. Write one out, such as "+string(access.PoliciesGet)+"; wildcards are none.")
		}
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out, nil
}
