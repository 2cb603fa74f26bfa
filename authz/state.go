package authz

import (
	"errors"

	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
)

// StoredResource is a policy or an experiment as a store keeps it.
type StoredResource struct {
	// Name is its resource name.
	Name string
	// Value is the marshalled message.
	Value []byte
	// Sequence is the number of the change that wrote it; 0 if that is not known.
	Sequence int64
	// Expires says that it will be purged, which of policies only those are that are
	// soft-deleted.
	Expires bool
	// Damage is why the store itself cannot read it; nil if it can.
	Damage error
}

// Undecodable is a stored resource that cannot be read: it was damaged, or another
// version wrote it.
type Undecodable struct {
	// Resource is its name.
	Resource string
	// Sequence is the number of the change that wrote it; 0 if that is not known.
	Sequence int64
	// Err says what is wrong with it. It quotes nothing of its content.
	Err error
}

// Gone reports whether there is no such policy, neither one to decide by nor one that
// cannot be read.
func (s PolicyState) Gone() bool { return s.Policy == nil && len(s.Undecodable) == 0 }

// DecodePolicyState makes the state of a policy of what a store keeps of it: the Policy
// and all its PolicyExperiments, in name order. A soft-deleted policy is no policy, and
// only ACTIVE experiments matter. What cannot be decoded is in Undecodable.
func DecodePolicyState(policy StoredResource, experiments []StoredResource) PolicyState {
	var state PolicyState
	live := &adminpb.Policy{}
	switch bad := policy.read(live); {
	case bad != nil && policy.Expires:
		return state
	case bad != nil:
		state.Undecodable = append(state.Undecodable, *bad)
	case live.DeleteTime != nil:
		return state
	default:
		state.Policy = live
	}
	for _, stored := range experiments {
		e := &adminpb.PolicyExperiment{}
		bad := stored.read(e)
		switch {
		case bad != nil:
			state.Undecodable = append(state.Undecodable, *bad)
		case e.GetPreviewMetadata().GetState() == adminpb.PolicyPreviewMetadata_ACTIVE:
			state.Experiments = append(state.Experiments, e)
		}
	}
	return state
}

func (r StoredResource) read(m Resource) *Undecodable {
	if err := r.Decode(m); err != nil {
		return &Undecodable{Resource: r.Name, Sequence: r.Sequence, Err: err}
	}
	return nil
}

// Resource is a message of the API that has a name.
type Resource interface {
	proto.Message
	GetName() string
}

// Decode reads the resource into a message. The error quotes nothing of its content.
func (r StoredResource) Decode(m Resource) error {
	if r.Damage != nil {
		return r.Damage
	}
	if err := proto.Unmarshal(r.Value, m); err != nil {
		return err
	}
	if m.GetName() != r.Name {
		// Any bytes that are cut at the right places are a message, none of them too: a
		// policy without rules, which would be the default decision.
		return errors.New("it does not have its own name in it: its content is lost, or that of another resource")
	}
	return nil
}
