package iam

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"log/slog"

	"cloud.google.com/go/iam/apiv1/iampb"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"understudy/admin"
	"understudy/admin/apierror"
)

// bindings are those of one resource as they were read, or the knowledge that there are
// none.
type bindings struct {
	resource admin.Key
	record   admin.Record
	// policy is nil if the record cannot be read.
	policy *iampb.Policy
	// damage says why the record cannot be read.
	damage error
}

// readBindings decodes the record of a resource's bindings. instance distinguishes resources of one
// name apart, one after the other: the UID, if it has one.
func readBindings(resource admin.Key, instance string, r admin.Record) bindings {
	b := bindings{resource: resource, record: r, damage: r.Damage}
	if b.damage != nil {
		return b
	}
	policy := &iampb.Policy{Version: version}
	if r.Key != "" {
		if b.damage = proto.Unmarshal(r.Value, policy); b.damage != nil {
			return b
		}
		policy.Etag, b.damage = base64.StdEncoding.DecodeString(r.Etag)
	} else {
		policy.Etag, b.damage = newEtag(resource, instance, policy)
	}
	b.policy = policy
	return b
}

// etag is that of the bindings as text. Of a damaged record it is what the store has kept
// of it.
func (b bindings) etag() string {
	if b.policy == nil {
		return b.record.Etag
	}
	return base64.StdEncoding.EncodeToString(b.policy.Etag)
}

// newEtag makes the etag of bindings. It is stored with them, and never computed again from
// what was stored.
//
// The encoding of protobuf is not stable from version to version, so an etag that was computed again
// could be another one of the same bindings.
func newEtag(resource admin.Key, instance string, policy *iampb.Policy) ([]byte, error) {
	content := proto.CloneOf(policy)
	content.Etag = nil
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("encoding the bindings of %s: %w", resource, err)
	}
	sum := sha256.Sum256(append([]byte(string(resource)+"\n"+instance+"\n"), text...))
	return sum[:etagSize], nil
}

// etagSize is the size of an etag, in bytes.
const etagSize = 12

// put is the write that stores a policy as the bindings, with the expiry of the resource.
//
// Bindings of a policy that is soft-deleted end with it.
func (b bindings) put(policy *iampb.Policy, owner admin.Record) (admin.Put, error) {
	stored := proto.CloneOf(policy)
	stored.Etag = nil
	key := admin.IAMPolicyOf(b.resource)
	put, err := admin.NewPut(key, base64.StdEncoding.EncodeToString(policy.Etag), stored)
	put.ExpireTime = owner.ExpireTime
	return put, err
}

// unreadable is DATA_LOSS of bindings that are stored and cannot be read. The cause is for
// the log.
func (b bindings) unreadable(ctx context.Context, log *slog.Logger) error {
	log.ErrorContext(ctx, "stored bindings cannot be read", "resource", string(b.resource), "error", b.damage)
	const hint = "Set all of them anew, with setIamPolicy and without an etag."
	return apierror.New(codes.DataLoss, apierror.ReasonDamaged,
		fmt.Sprintf("The bindings of '%s' are stored, but their record cannot be read: it was damaged, or written by another version. %s", b.resource, hint),
		apierror.Facts{"resource": string(b.resource), "hint": hint},
		&errdetails.ResourceInfo{ResourceType: b.resource.Type(), ResourceName: string(b.resource)})
}
