package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// Key is the resource name of a stored resource, such as
// projects/p1/locations/l1/policies/web. Its second segment is the project.
type Key string

// Collection is the name of a collection: a Key without its last segment, such as
// projects/p1/locations/l1/policies. Where a List says so, `-` may stand for any
// one segment but the project (AIP-159).
type Collection string

// Record is what is stored under a Key.
type Record struct {
	Key Key
	// Value is a marshalled message. The store never looks into it.
	Value []byte
	// Damage says why the store cannot read the record; nil if it can. Such a record
	// has a Key and nothing else, a Sequence of 0 and no expiry. It is there for every
	// condition, and can be put and deleted like any other.
	Damage error
	// Etag is the resource's etag at the time of the write.
	Etag string
	// Sequence is the number of the Txn that last wrote the record, unless that
	// write said otherwise.
	Sequence int64
	// ExpireTime is when the record ceases to exist; the zero time means never.
	// From then on every method behaves as if the record were deleted. Stores keep
	// it to the millisecond.
	ExpireTime time.Time
}

// Summary is a record with a Put.Summary in place of its value, for who lists resources and
// needs no content. It is no Record: what was read without its content can be shown, but not
// stored again or decided by.
type Summary Record

// Resource returns what the data plane decodes of a record of a policy or an experiment.
func (r Record) Resource() authz.StoredResource {
	return authz.StoredResource{
		Name: string(r.Key), Value: r.Value, Sequence: r.Sequence, Expires: !r.ExpireTime.IsZero(), Damage: r.Damage,
	}
}

// Condition is a statement about the store that a Txn depends on. It is one of
// Exists, Absent, Unchanged, FewerThan and Complete.
type Condition interface{ isCondition() }

// Exists holds if there is a record under Key and, if Etag is not empty, its etag
// is bytewise the same.
type Exists struct {
	Key  Key
	Etag string
}

// Absent holds if there is no record under Key.
type Absent struct{ Key Key }

// Unchanged holds if the record under Key is the one that was read with this
// Sequence.
type Unchanged struct {
	Key      Key
	Sequence int64
}

// FewerThan holds if the collection (without wildcards) has fewer than N records.
type FewerThan struct {
	Collection Collection
	N          int
}

// Complete holds if all chunks of a content are there. It is a statement about chunks, which
// may come and go without a Txn; where a Txn has it, the Txn is the first to need them.
type Complete struct{ Content authz.Content }

func (Exists) isCondition()    {}
func (Absent) isCondition()    {}
func (Unchanged) isCondition() {}
func (FewerThan) isCondition() {}
func (Complete) isCondition()  {}

// Write is one change that a Txn makes. It is one of Put, Delete, DeleteCollection,
// TrimCollection, ExpireCollection and ExpireContent.
type Write interface{ isWrite() }

// Put creates or replaces a record.
type Put struct {
	Key   Key
	Value []byte
	// Summary is what Summaries have in place of Value: a message of the same type that
	// leaves out what is large. Empty means Value.
	Summary    []byte
	Etag       string
	ExpireTime time.Time
	// Sequence is kept as the record's sequence if it is not zero: for a write
	// that is no change of the resource, such as ending an operation.
	Sequence int64
}

// Delete removes a record. Removing what is not there is no error.
type Delete struct{ Key Key }

// DeleteCollection removes every record of a collection (without wildcards), also
// those that were put after the caller last looked.
type DeleteCollection struct{ Collection Collection }

// TrimCollection removes the records of a collection (without wildcards) that have
// the lowest sequences, until Keep are left: those that were written longest ago. Of
// records with one sequence, that with the bytewise last key is kept first. Damaged
// records are not counted and stay.
type TrimCollection struct {
	Collection Collection
	Keep       int
}

// ExpireCollection gives every record of a collection (without wildcards) an expiry,
// or with the zero time none. Nothing else of the records changes, their sequence
// included; what has expired already stays so, and damaged records stay as they are.
type ExpireCollection struct {
	Collection Collection
	ExpireTime time.Time
}

// ExpireContent gives the chunks of a content an expiry, or with the zero time none. Those
// that are not there stay so.
type ExpireContent struct {
	Content    authz.Content
	ExpireTime time.Time
}

func (Put) isWrite()              {}
func (Delete) isWrite()           {}
func (DeleteCollection) isWrite() {}
func (TrimCollection) isWrite()   {}
func (ExpireCollection) isWrite() {}
func (ExpireContent) isWrite()    {}

// Event notifies the sidecars of a location that policies (or their experiments) or datasets
// changed.
type Event struct {
	Location authz.Location
	Policies []authz.PolicyName
	Datasets []authz.DatasetName
}

// Txn is one atomic change: if all conditions hold, all writes are made in order
// and all events appended under the project's next sequence number; otherwise
// nothing is. All keys, collections and locations belong to Project; they may be of
// several of its locations.
type Txn struct {
	// ID makes the Txn repeatable: a second commit of the same ID within an hour
	// changes nothing and returns what the first one returned. It is not empty.
	ID string
	// Project is the ID of the project, such as p1.
	Project    string
	Conditions []Condition
	Writes     []Write
	// Events has at most one entry for a location.
	Events []Event
	// Raises says that the project's watermark becomes the number of the Txn. The first Txn of a
	// project raises it in any case.
	Raises bool
	// Known is the highest watermark of the project that the caller knows of. The number of the Txn
	// is above it, whatever the clock of the store says. If the store's watermark is lower, the Txn
	// is not made and the error is ErrWentBack, unless Accepts is set.
	Known int64
	// Accepts has the Txn made on a store that has gone back, too.
	Accepts bool
}

// ConditionError is the error of a Txn whose conditions do not hold. It names the
// first one, in the order of the Txn, that does not.
type ConditionError struct {
	// Index is the condition's place in Txn.Conditions.
	Index     int
	Condition Condition
}

func (e *ConditionError) Error() string {
	return fmt.Sprintf("condition %d does not hold: %#v", e.Index, e.Condition)
}

// ErrUnavailable says that the store cannot be reached and that nothing was
// written. The caller may try again.
var ErrUnavailable = errors.New("the store is unavailable")

// ErrWentBack says that the store has gone back: its watermark is lower than one that is known. As
// with ErrUnavailable, which it wraps, nothing was written.
var ErrWentBack = fmt.Errorf("%w: it has lost its last changes", ErrUnavailable)

// ErrOutcomeUnknown says that the store was lost while a Txn was under way: it
// has been made as a whole, or not at all. Only a commit with the same ID
// shows which.
var ErrOutcomeUnknown = errors.New("the store was lost while the change was being stored")

// Query selects the records of a collection.
type Query struct {
	// Collection may have wildcards.
	Collection Collection
	// ID is that of the records, the last segment of their keys; empty means any.
	ID string
	// After is the key behind which the answer starts; empty means the beginning.
	After Key
	// Limit is the number of records returned at most; 0 means all.
	Limit int
}

// NodeReport is what a node last said of itself.
type NodeReport struct {
	// Node has HeartbeatTime set to the store's time of the report.
	Node *adminpb.Node
	// Age is the time since the report, both ends by the store's clock, so that
	// the clocks of the nodes do not matter.
	Age time.Duration
}

// Alive reports whether the node counts as live, by the age of its report.
func (r NodeReport) Alive() bool { return r.Age < authz.NodeLifetime }

// Store is what the control plane needs: reads, and one write that compares
// before it writes. Implementations are safe for concurrent use, also by several
// processes where the technology allows it.
//
// A read that starts after a Commit has returned sees what it wrote, from any
// process. An error is ErrUnavailable or ErrOutcomeUnknown, a *ConditionError, or
// that of the context; an implementation wraps the first two with its own cause,
// which is for logs only.
type Store interface {
	// Get returns the records of the keys in their order, read at one instant. A
	// record that is not there is a zero Record. All keys belong to one project.
	Get(ctx context.Context, keys ...Key) ([]Record, error)

	// List returns records in bytewise order of their keys, read at one instant.
	List(ctx context.Context, query Query) ([]Record, error)

	// Summaries is Get without the contents. Damage of a content alone need not show.
	Summaries(ctx context.Context, keys ...Key) ([]Summary, error)

	// ListSummaries is List without the contents.
	ListSummaries(ctx context.Context, query Query) ([]Summary, error)

	// Commit makes a Txn and returns its sequence number. A reply that was lost on
	// the way is asked for again by the implementation itself. Concurrent commits
	// have one order, that of their sequence numbers.
	Commit(ctx context.Context, txn Txn) (sequence int64, err error)

	// Watermark returns the watermark of a project: the number of the last Txn that raised it. A
	// store that comes back with older data has a lower one. It is 0 if the project never had a
	// Txn, and 1 if it only had some of a version that kept no watermark.
	Watermark(ctx context.Context, project string) (int64, error)

	// PutChunk stores a chunk of a content, apart from any Txn: it has no sequence number and no
	// event, and may be repeated. Chunks that no Txn keeps are gone ContentKept after the last
	// one. Those that one has kept are not changed any more.
	PutChunk(ctx context.Context, of authz.Content, index int, chunk []byte) error

	authz.Contents

	// Nodes returns the reports of a location's nodes in name order. Reports older
	// than an hour are dropped. One that cannot be decoded is that of a node which has
	// applied nothing.
	Nodes(ctx context.Context, location authz.Location) ([]NodeReport, error)

	// Evidence returns what was published of an experiment, read at one instant; nothing
	// if there is none.
	Evidence(ctx context.Context, name EvidenceName) (Evidence, error)

	// Compact replaces some tallies by their sum with what was compacted before, in one
	// step: if one of them was published since it was read, something else was compacted, or
	// the evidence was dropped, nothing is changed and the error is ErrChanged. Nothing is
	// published of a compacted tally any more: see authz.TallyKept.
	Compact(ctx context.Context, s Compaction) error

	// EvidenceNames returns the experiments of a project of which there is evidence,
	// those that are gone too, in order.
	EvidenceNames(ctx context.Context, project string) ([]EvidenceName, error)

	// DropEvidence removes all evidence of an experiment. If there is none, that is no error.
	DropEvidence(ctx context.Context, name EvidenceName) error
}

// EvidenceName says whose evidence it is: an experiment that was created again under its
// name has another UID.
type EvidenceName struct {
	Experiment Key
	UID        string
}

// Evidence is what was published of an experiment.
type Evidence struct {
	// Compacted is the sum of the tallies that are over, a marshalled Evidence; empty if
	// there is none.
	Compacted []byte
	// Version changes with every Compact.
	Version int64
	// Damage says why the store cannot read Compacted, which is empty then; nil if it can.
	Damage error
	// Tallies are the others, in the order of their nodes.
	Tallies []TallyRecord
	// Damaged are the tallies that the store cannot read, in order. What is published of
	// one later takes its place.
	Damaged []string
}

// TallyRecord is what was last published of a tally.
type TallyRecord struct {
	// Node is the resource name of the node that counts.
	Node string
	// Tally and Serial are those of authz.PublishedEvidence.
	Tally  string
	Serial int64
	// Value is that of authz.PublishedEvidence.
	Value []byte
	// Age is the time since it was published, both ends by the store's clock.
	Age time.Duration
}

// Compaction replaces tallies that are over by their sum.
type Compaction struct {
	EvidenceName
	// Version is that of the Evidence that was read.
	Version int64
	// Compacted is the new sum.
	Compacted []byte
	// Tallies are in it now; their Node, Tally and Serial count.
	Tallies []TallyRecord
}
