package child

import (
	"context"
	"crypto/sha256"
	"sync"
	"weak"

	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// policies are those that the lanes have compiled: an experiment is compared with its live policy, which
// has a lane of its own, and to compile it again would take its memory twice. It is safe for concurrent use.
type policies struct {
	mu sync.Mutex
	// compiled :: hash of the marshalled policy → what came of it, as long as a lane has it.
	compiled map[[sha256.Size]byte]weak.Pointer[compiled]
}

// compiled is a policy with what it was compiled of.
type compiled struct {
	source *adminpb.Policy
	policy *authz.Policy
}

func newPolicies() *policies {
	return &policies{compiled: make(map[[sha256.Size]byte]weak.Pointer[compiled])}
}

// compile returns the policy of a payload, that of another lane if one has it.
func (p *policies) compile(ctx context.Context, payload []byte) (*compiled, error) {
	key := sha256.Sum256(payload)
	p.mu.Lock()
	known := p.compiled[key].Value()
	p.mu.Unlock()
	if known != nil {
		return known, nil
	}
	source := &adminpb.Policy{}
	if err := proto.Unmarshal(payload, source); err != nil {
		return nil, err
	}
	policy, err := authz.Compile(ctx, source)
	if err != nil {
		return nil, err
	}
	made := &compiled{source, policy}
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, w := range p.compiled {
		if w.Value() == nil {
			delete(p.compiled, key)
		}
	}
	p.compiled[key] = weak.Make(made)
	return made, nil
}
