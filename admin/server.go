package admin

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"

	"understudy/admin/access"
	"understudy/admin/content"
	"understudy/admin/dataset"
	adminpb "understudy/admin/v1"
	"understudy/authz/diagnostics"
)

const (
	// maxExperiments is the number of experiments that a policy may have, in
	// whatever state (AIP-236 wants the cap documented).
	maxExperiments = 10
	// maxRevisions is the number of revisions that are kept of a policy. Those go
	// first that have not been live for the longest time.
	maxRevisions = 100

	// purgeAfter is how long a soft-deleted policy can be restored (AIP-164).
	purgeAfter = 30 * 24 * time.Hour
	// operationsKept is how long an operation can be read (AIP-151).
	operationsKept = 30 * 24 * time.Hour

	// DefaultOperationWait is how long a mutating call waits for its operation to be done before
	// it answers.
	DefaultOperationWait = 2 * time.Second
	// MaxAttempts is how often a Txn is made again after it lost a race.
	MaxAttempts = 50
)

// Config is what a Server needs.
type Config struct {
	// Store keeps the resources. Required.
	Store Store
	// Logger gets the causes of internal errors, which callers do not see. Nil means none.
	Logger *slog.Logger
	// Panics reports what panics. Nil means that they are logged only.
	Panics *diagnostics.Panics
	// RequirePassingTests refuses a policy whose own tests fail: the test_ rules of
	// its modules. One without tests is accepted.
	RequirePassingTests bool
	// MaxPolicySize bounds what clients set in a policy, or in an experiment with its
	// policy, as a marshalled message, in bytes. Each revision and operation of it is
	// kept at its size. Zero means DefaultPolicySize.
	MaxPolicySize int
	// OperationWait is how long a mutating call waits for its operation to be done before it
	// answers with one that is not. Zero means DefaultOperationWait.
	OperationWait time.Duration
	// MaxDatasetSize bounds the content of a dataset, in bytes, up to dataset.MaxSize. Zero means
	// dataset.DefaultSize.
	MaxDatasetSize int
	// Compiler compiles and tests what callers send. Nil does so in this process.
	Compiler Compiler
	// Authorizer says whether the caller may promote to a location, as a promotion does and a
	// configuration that leads there has others do: all else is checked before a call comes
	// here. Nil allows it.
	Authorizer access.Authorizer
	// Guard keeps changes out of a store that has gone back, which has to be Store. Nil does not.
	Guard *StoreGuard
	// Now is the clock of create_time and its like. Nil means the system's.
	Now func() time.Time
}

// Server implements the services of the API. It keeps no state of its own: any
// number of servers may share a store. It is safe for concurrent use.
type Server struct {
	adminpb.UnimplementedPolicyPreviewServer
	adminpb.UnimplementedDatasetsServer
	longrunningpb.UnimplementedOperationsServer

	store Store
	// guard is nil if changes are made on a store that has gone back, too.
	guard *StoreGuard
	log   *slog.Logger
	// panics reports what panics in calls and in the compiler.
	panics *diagnostics.Panics
	now    func() time.Time
	// authorizer is as in Config.
	authorizer access.Authorizer
	// maxPolicySize and operationWait are as in Config.
	maxPolicySize int
	operationWait time.Duration
	// maxDatasetSize is as in Config.
	maxDatasetSize int
	compilers      *compilers
	itemLists      *itemLists
	// testing lets one policy's tests run at a time; nil if none are to be run.
	testing chan struct{}
}

// NewServer returns a Server on a store.
func NewServer(config Config) (*Server, error) {
	if config.Store == nil {
		return nil, errors.New("admin: Config.Store is required")
	}
	s := &Server{
		store: config.Store, guard: config.Guard, log: config.Logger, panics: config.Panics, now: config.Now,
		authorizer: config.Authorizer, operationWait: cmp.Or(config.OperationWait, DefaultOperationWait),
		maxPolicySize: cmp.Or(config.MaxPolicySize, content.DefaultPolicySize), maxDatasetSize: cmp.Or(config.MaxDatasetSize, dataset.DefaultSize),
		compilers: newCompilers(config.Compiler), itemLists: newItemLists(),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.panics == nil {
		var err error
		if s.panics, err = diagnostics.NewPanics(s.log, nil); err != nil {
			return nil, fmt.Errorf("admin: %w", err)
		}
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.maxDatasetSize > dataset.MaxSize {
		return nil, fmt.Errorf("admin: Config.MaxDatasetSize is %d; the limit is %d", s.maxDatasetSize, dataset.MaxSize)
	}
	if config.RequirePassingTests {
		s.testing = make(chan struct{}, 1)
	}
	return s, nil
}
