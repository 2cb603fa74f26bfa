package authz

import (
	"crypto/sha256"
	"fmt"

	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
)

// Packed is a policy as it is kept where nobody looks into it: marshalled. As a message, the
// data of a policy takes about ten times the memory that it has as bytes, and a sidecar keeps
// all policies of its location. It is immutable and safe for concurrent use.
type Packed struct {
	value []byte
	// compiled is the hash of what is compiled of the policy.
	compiled [sha256.Size]byte
}

// deterministic marshals maps in the order of their keys.
var deterministic = proto.MarshalOptions{Deterministic: true}

// Pack packs a policy. The error is that of a message that cannot be marshalled, which none is
// that was unmarshalled.
func Pack(p *adminpb.Policy) (*Packed, error) {
	value, err := deterministic.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("packing a policy: %w", err)
	}
	compiled, err := deterministic.Marshal(CompiledPart(p))
	if err != nil {
		return nil, fmt.Errorf("packing a policy: %w", err)
	}
	return &Packed{value, sha256.Sum256(compiled)}, nil
}

// Bytes returns the marshalled policy, with maps in the order of their keys. They are shared
// and must not be modified.
func (p *Packed) Bytes() []byte { return p.value }

// Policy returns the policy, which is the caller's own.
func (p *Packed) Policy() (*adminpb.Policy, error) {
	policy := &adminpb.Policy{}
	if err := proto.Unmarshal(p.value, policy); err != nil {
		return nil, fmt.Errorf("unpacking a policy: %w", err)
	}
	return policy, nil
}

// SameContent reports whether two policies decide alike because all that is compiled of them
// is equal. Nil is like nothing.
func (p *Packed) SameContent(as *Packed) bool {
	return p != nil && as != nil && p.compiled == as.compiled
}
