package admin

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminpb "understudy/admin/v1"
)

// DeletionWrites are the writes of a soft deletion, with what they do below the policy.
func DeletionWrites(policy Put) []Write {
	return append(append([]Write{policy}, experimentsDeletions(policy.Key)...),
		ExpireCollection{policy.Key.In("revisions"), policy.ExpireTime}, ExpireCollection{policy.Key.iam(), policy.ExpireTime})
}

// UndeletionWrites are the writes that bring back what is below a policy that was soft-deleted.
func UndeletionWrites(policy Key) []Write {
	return []Write{ExpireCollection{Collection: policy.In("revisions")}, ExpireCollection{Collection: policy.iam()}}
}

// SoftDeletion returns a policy as it is from its deletion on, and the write that stores
// it until it is purged.
func SoftDeletion(live *adminpb.Policy, now time.Time) (*adminpb.Policy, Put, error) {
	policy := proto.CloneOf(live)
	policy.DeleteTime, policy.UpdateTime = timestamppb.New(now), timestamppb.New(now)
	policy.PurgeTime = timestamppb.New(now.Add(purgeAfter))
	write, err := NewPut(Key(policy.Name), policy.Etag, policy)
	write.ExpireTime = policy.PurgeTime.AsTime()
	return policy, write, err
}

// policyRestoration works out the undelete of a soft-deleted policy. It compiles
// the policy again: what this version cannot run must not become live.
func (s *Server) policyRestoration(ctx context.Context, stored StoredPolicy) (*Change, error) {
	policy := proto.CloneOf(stored.Policy)
	policy.DeleteTime, policy.PurgeTime = nil, nil
	policy.UpdateTime = timestamppb.New(s.now())
	if err := s.compile(ctx, "policy", policy); err != nil {
		return nil, err
	}
	c, err := s.policyReplacement(ctx, activation{verb: VerbUndelete}, stored, policy)
	if err != nil {
		return nil, err
	}
	c.Writes = append(UndeletionWrites(stored.Record.Key), c.Writes...)
	return c, nil
}
