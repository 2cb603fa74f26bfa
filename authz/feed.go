package authz

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
)

// Cursor is a place in the stream of a location's changes: the last change that
// is known. The zero Cursor stands before the first change.
type Cursor struct {
	// Sequence is the number of that change. Numbers grow over a whole project, so those of
	// one location have gaps; and they never go back, also in a store that lost its last
	// writes: the next number is the last one and 1, or the store's time in Unix milliseconds,
	// whichever is higher.
	Sequence int64
	// Nonce is drawn at random for each change. It distinguishes a change from another
	// one with the same number, which a store that lost its last writes (a
	// failover, a restored copy) may hand out again where a clock was set back.
	Nonce string
}

// Head is what a store says of itself in answer to a heartbeat.
type Head struct {
	// Cursor is the last change of the location.
	Cursor
	// Watermark is the project's: the number of its last change, changes of operations and
	// experiments not counted. It is 0 if the store has no watermark.
	Watermark int64
	// Ahead is the number of nodes of the location, with the one that asks, that have reported a
	// higher watermark. Unless the store is empty, it has gone back then.
	Ahead int
}

// WentBackHelp says what it means that a store has gone back, and what to do about it.
const WentBackHelp = "Roles that were taken away may be there again, requirements of commits may be missing, " +
	"and a sidecar that has started since may decide by older policies. The admin API takes changes of owners only. " +
	"`understudy restore --newer` or `understudy restore --accept` ends that"

// PolicyState is all that a sidecar needs to decide by one policy.
type PolicyState struct {
	// Sequence is the number of the change that wrote the policy's record, also where the record
	// says that the policy is deleted; 0 if that is not known, or there is no record.
	Sequence int64
	// Policy is the live policy. Nil means that there is none, for it was never
	// created or is deleted; or, if it is among Undecodable, that it cannot be read.
	Policy *adminpb.Policy
	// Experiments are the policy's ACTIVE experiments in name order.
	Experiments []*adminpb.PolicyExperiment
	// Undecodable is what of the policy and its experiments is stored, but cannot be
	// read: the policy first, then experiments in name order.
	Undecodable []Undecodable
}

// Update is the state of some policies and datasets of a location as of a place in the
// stream of its changes. Its messages are shared and must not be modified.
type Update struct {
	Cursor   Cursor
	Policies map[PolicyName]PolicyState
	Datasets map[DatasetName]DatasetState
	// Watermark is the highest that the node knew which saved the update; 0 in an update of a store.
	Watermark int64
	// Selection is which policies the node followed that saved the update. It is unset in an update of a store.
	Selection Selection
}

// ErrTrimmed says that the changes after a cursor are not all there any more, or
// never were in this copy of the store. The follower has to load again.
var ErrTrimmed = errors.New("the changes after this cursor are no longer kept")

// Feed is what the data plane needs of a store. Implementations are safe for
// concurrent use. Errors other than those named here mean that the store cannot
// be reached: the caller keeps what it has and tries again. A record that cannot be
// decoded is no error: it is the failure of its policy alone.
type Feed interface {
	// Load returns every policy of a scope and every dataset of its location, read at one
	// instant: no commit is seen by half. A policy that is soft-deleted is there with a nil Policy: that
	// distinguishes a deletion from a policy that the store has lost.
	Load(ctx context.Context, of Scope) (Update, error)

	// Next waits until there are changes of the location after the cursor and returns the policies
	// of the scope and the datasets that they touched, which may be none, all read at the instant of the update's cursor: no commit is
	// seen by half. A policy that is gone is there with a nil Policy, a dataset with a nil
	// Dataset. ErrTrimmed means that Load is needed.
	Next(ctx context.Context, of Scope, after Cursor) (Update, error)

	Contents

	// Heartbeat stores what a node reports of itself, with the time of the store's
	// clock, and returns the head of the location. A head with a
	// lower sequence than the node's own, or with the same sequence and another
	// nonce, means that the store lost changes: Load is needed.
	Heartbeat(ctx context.Context, node *adminpb.Node) (Head, error)

	// Leave removes a node's report, so that no operation waits for it.
	Leave(ctx context.Context, nodeName string) error

	// Publish stores what tallies of a node have counted. Each replaces what was
	// published of the same tally before, unless that has a higher serial. One whose
	// experiment is gone, or that was compacted, is not stored but named in the answer, with
	// what of it was compacted: a node that lives goes on from there with another tally. All
	// others are stored, but for those in Failed; after an error, some may be, and the same is
	// published again. An experiment is gone if there is no record under its name; or, for a
	// tally that is new to the store, none whose value has the UID in it.
	Publish(ctx context.Context, node string, evidence []PublishedEvidence) (Publication, error)
}

// NodeLifetime is the age of a report from which on its node counts as dead.
const NodeLifetime = 10 * time.Second

// TallyKept is for how long a store knows that a tally is over. A node that could not publish a
// tally for a quarter of that gives it up, and one that was not published for half of it is taken
// for over: so none is that a node still publishes, and none is forgotten that it does.
const TallyKept = 48 * time.Hour

// PublishedEvidence is what a tally has counted since it began.
type PublishedEvidence struct {
	// Experiment is the resource name of the experiment, and UID its unique ID.
	Experiment, UID string
	// Tally is unique: no two tallies ever have the same, of one node or of two.
	Tally string
	// Serial grows with each publication of the tally.
	Serial int64
	// Value is a marshalled Evidence, which no store looks into.
	Value []byte
}

// Publication is what became of what was published.
type Publication struct {
	// Nodes is the number of nodes of the location that report, the publisher included.
	Nodes int
	// Refused are the tallies of which nothing was stored: they were compacted, or their
	// experiment is gone.
	Refused []RefusedTally
	// Failed :: tally → why it could not be stored, where that is the fault of its own records
	// alone and the others were stored. It is published again later, as after an error.
	Failed map[string]error
}

// RefusedTally is a tally of which nothing was stored.
type RefusedTally struct {
	// Tally is that of PublishedEvidence.
	Tally string
	// Serial is that of the publication which was compacted: what was counted up to it counts
	// for good, and what was counted since does not yet. Nothing is ever stored of the tally
	// again. 0 means that it was not compacted: its experiment is gone.
	Serial int64
}

// SerialUnknown is the serial of a tally that was compacted, if the store has lost the serial.
// That may have been each.
const SerialUnknown = math.MaxInt64

// What both planes say of a node whose policies are not those of the store.
const (
	// ReasonNotApplied is the reason in the ErrorInfo of a node that could not apply a
	// resource. Its metadata are resource, the name, and sequence, the change.
	ReasonNotApplied = "POLICY_NOT_APPLIED"
	// ReasonMissing is the reason in the ErrorInfo of a node that decides by a policy which
	// the store has lost. Its metadata is resource, the name, and sequence, the number of the change that made it.
	ReasonMissing = "POLICY_MISSING_IN_STORE"
	// ReasonStale is the reason in the ErrorInfo of a node that decides by a newer record of a
	// policy than the store has, which went back. Its metadata is resource, the name, and sequence, the number of the
	// change that made that record.
	ReasonStale = "POLICY_STALE_IN_STORE"
	// ReasonWentBack is the reason in the ErrorInfo of a node that knows, by itself or by others, of later changes than
	// the store has. Its metadata are watermark, the highest that the node has seen, and stored, that of the store.
	ReasonWentBack = "STORE_WENT_BACK"
)

// StalePolicies returns the policies of which a node says that the store has an older version than it decides by, with
// the number of the change that made its own version; 0 if the node does not say.
func StalePolicies(n *adminpb.Node) map[PolicyName]int64 { return faultyPolicies(n, ReasonStale) }

// UnstoredPolicies returns the policies of which a node says that the store has an older version than it decides by, or
// none, with the number of the change that made its own version; 0 if the node does not say.
func UnstoredPolicies(n *adminpb.Node) map[PolicyName]int64 {
	return faultyPolicies(n, ReasonStale, ReasonMissing)
}

func faultyPolicies(n *adminpb.Node, reasons ...string) map[PolicyName]int64 {
	found := make(map[PolicyName]int64)
	for _, d := range status.FromProto(n.GetError()).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && slices.Contains(reasons, info.Reason) {
			sequence, _ := strconv.ParseInt(info.Metadata["sequence"], 10, 64)
			found[PolicyName(info.Metadata["resource"])] = sequence
		}
	}
	return found
}

// AbsentDefault returns the ID of the policy that decides on a node where a request names
// none, if there is no such policy; empty if there is, or the node does not say.
func AbsentDefault(n *adminpb.Node) PolicyID {
	if n.GetDefaultPolicy() == "" || slices.Contains(n.GetPolicies(), n.GetDefaultPolicy()) {
		return ""
	}
	return PolicyID(ResourceName(n.GetDefaultPolicy()).ID())
}

// DefaultEffect is the default decision of a node.
func DefaultEffect(n *adminpb.Node) Effect {
	if n.GetDefaultAllow() {
		return Allow
	}
	return Deny
}

// AbsentDefaultHelp says what it means that there is no policy with the ID of --policy, and
// what to do about it. byDefault is the default decision.
func AbsentDefaultHelp(id PolicyID, byDefault Effect) string {
	return fmt.Sprintf("There is no policy %s (--policy) in the location: a request that names no other gets the default decision, %s. "+
		"Create it with `understudy apply %s -f FILE`, or name another one.", id, strings.ToLower(byDefault.String()), id)
}

// LogPrefix begins the body of every preview record and of nothing else (AIP-236).
// It is the log_prefix of every experiment.
const LogPrefix = "PolicyPreviewLog"

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
	state := PolicyState{Sequence: policy.Sequence}
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
