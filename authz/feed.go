package authz

import (
	"context"
	"errors"
	"strings"

	adminpb "understudy/admin/v1"
)

// Location is the resource name of a location: a set of sidecars that enforce
// the same policies. Format: projects/{project}/locations/{location}.
type Location string

// PolicyName is the resource name of a policy. Format:
// projects/{project}/locations/{location}/policies/{policy}.
type PolicyName string

// PolicyID is the last segment of a [PolicyName].
type PolicyID string

// Policy returns the name of the policy with this ID in the location.
func (l Location) Policy(id PolicyID) PolicyName {
	return PolicyName(string(l) + "/policies/" + string(id))
}

func (n PolicyName) id() PolicyID { return PolicyID(n[strings.LastIndexByte(string(n), '/')+1:]) }

// Cursor is a place in the stream of a location's changes: the last change that
// is known. The zero Cursor stands before the first change.
type Cursor struct {
	// Sequence is the number of that change. Numbers grow over a whole project,
	// so those of one location have gaps.
	Sequence int64
	// Nonce is drawn at random for each change. It tells a change from another
	// one with the same number, which a store that lost its last writes (a
	// failover, a restored copy) may hand out again.
	Nonce string
}

// PolicyState is all that a sidecar needs to decide by one policy.
type PolicyState struct {
	// Policy is the live policy. Nil means that there is none, for it was never
	// created or is deleted; or, if it is among Undecodable, that it cannot be read.
	Policy *adminpb.Policy
	// Experiments are the policy's ACTIVE experiments in name order.
	Experiments []*adminpb.PolicyExperiment
	// Undecodable is what of the policy and its experiments is stored, but cannot be
	// read: the policy first, then experiments in name order.
	Undecodable []Undecodable
}

// Update is the state of some policies of a location as of a place in the
// stream of its changes. Its messages are shared and must not be modified.
type Update struct {
	Cursor   Cursor
	Policies map[PolicyName]PolicyState
}

// ErrTrimmed says that the changes after a cursor are not all there any more, or
// never were in this copy of the store. The follower has to load again.
var ErrTrimmed = errors.New("the changes after this cursor are no longer kept")

// Feed is what the data plane needs of a store. Implementations are safe for
// concurrent use. Errors other than those named here mean that the store cannot
// be reached: the caller keeps what it has and tries again. A record that cannot be
// decoded is no error: it is the failure of its policy alone.
type Feed interface {
	// Load returns every policy of a location, read at one instant: no commit is seen
	// by half. One that is soft-deleted is there with a nil Policy: that tells a
	// deletion from a policy that the store has lost.
	Load(ctx context.Context, location Location) (Update, error)

	// Next waits until there are changes after the cursor and returns the
	// policies that they touched, each read at one instant that is not before its
	// change; policies touched by one change are read at the same instant. A
	// policy that is gone is there with a nil Policy. The update's cursor is the
	// last change that it covers. ErrTrimmed means that Load is needed.
	Next(ctx context.Context, location Location, after Cursor) (Update, error)

	// Heartbeat stores what a node reports of itself, with the time of the store's
	// clock, and returns the cursor of the location's last change. A head with a
	// lower sequence than the node's own, or with the same sequence and another
	// nonce, means that the store lost changes: Load is needed.
	Heartbeat(ctx context.Context, node *adminpb.Node) (head Cursor, err error)

	// Leave removes a node's report, so that no operation waits for it.
	Leave(ctx context.Context, nodeName string) error
}
