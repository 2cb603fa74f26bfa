package admin

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/grpc/health"
	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/diagnostics"
)

const (
	// maxExperiments is the number of experiments that a policy may have, in
	// whatever state (AIP-236 wants the cap documented).
	maxExperiments = 10
	// maxRevisions is the number of revisions that are kept of a policy. Those go
	// first that have not been live for the longest time.
	maxRevisions = 100
	// maxRules, maxExempted and maxDisplayName bound a policy's fields.
	maxRules       = 100
	maxExempted    = 100
	maxDisplayName = 63
	// maxExemptedLength bounds an exempted project, in characters.
	maxExemptedLength = 255
	// maxAnnotationPrefix bounds the prefix of an annotation's key, in bytes.
	maxAnnotationPrefix = 253
	// maxAnnotationsSize bounds all keys and values of a resource, in bytes.
	maxAnnotationsSize = 256 << 10

	// purgeAfter is how long a soft-deleted policy can be restored (AIP-164).
	purgeAfter = 30 * 24 * time.Hour
	// operationsKept is how long an operation can be read (AIP-151).
	operationsKept = 30 * 24 * time.Hour

	// settleTime is how long a mutating call waits for its operation to be done
	// before it answers.
	settleTime = 2 * time.Second
	// nodeLifetime is the age of a report from which on its node counts as dead.
	nodeLifetime = 10 * time.Second
	// maxAttempts is how often a Txn is made again after it lost a race.
	maxAttempts = 50
)

// DefaultPolicySize is the limit on a policy's size, in bytes, unless Config.MaxPolicySize
// is set. A gRPC client receives messages of at most 4 MiB unless it is told otherwise:
// the rest is room for the names, times and etags that the server adds, and for the
// operation around a policy.
const DefaultPolicySize = 4<<20 - 64<<10

// Config is what a Server needs.
type Config struct {
	// Store keeps the resources. Required.
	Store Store
	// Logger gets what callers are not told: the causes of internal errors.
	// Nil means none.
	Logger *slog.Logger
	// Panics reports what panics. Nil means that the Logger alone hears of it.
	Panics *diagnostics.Panics
	// RequirePassingTests refuses a policy whose own tests fail: the test_ rules of
	// its modules. One without tests is accepted.
	RequirePassingTests bool
	// MaxPolicySize bounds what clients set in a policy, or in an experiment with its
	// policy, as a marshalled message, in bytes. Each revision and operation of it is
	// kept at its size. Zero means DefaultPolicySize.
	MaxPolicySize int
	// Hosts are the names by which HTTP may ask, in lower case, beside localhost and addresses.
	// Nil means any name: for a server that strangers' pages cannot reach.
	Hosts []string
	// Now is the clock of create_time and its like. Nil means the system's.
	Now func() time.Time
}

// Server implements the services of the API. It keeps no state of its own: any
// number of servers may share a store. It is safe for concurrent use.
type Server struct {
	adminpb.UnimplementedPolicyPreviewServer
	longrunningpb.UnimplementedOperationsServer

	store Store
	log   *slog.Logger
	// panics reports what panics in calls and in the compiler.
	panics *diagnostics.Panics
	now    func() time.Time
	// maxPolicySize and hosts are as in Config.
	maxPolicySize int
	hosts         []string
	// origins tells which changes the pages of other sites ask for.
	origins   *http.CrossOriginProtection
	compilers *compilers
	// testing lets one policy's tests run at a time; nil if none are to be run.
	testing chan struct{}
	// health is that of the gRPC services.
	health *health.Server
}

// NewServer returns a Server on a store.
func NewServer(config Config) (*Server, error) {
	if config.Store == nil {
		return nil, errors.New("admin: Config.Store is required")
	}
	s := &Server{
		store: config.Store, log: config.Logger, panics: config.Panics, now: config.Now, health: newHealth(),
		hosts: config.Hosts, origins: http.NewCrossOriginProtection(), compilers: newCompilers(),
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
	if s.maxPolicySize = config.MaxPolicySize; s.maxPolicySize == 0 {
		s.maxPolicySize = DefaultPolicySize
	}
	if config.RequirePassingTests {
		s.testing = make(chan struct{}, 1)
	}
	return s, nil
}

// decode unmarshals a record into a message.
func decode[M authz.Resource](r Record, m M) (M, error) {
	if err := r.Resource().Decode(m); err != nil {
		return m, fmt.Errorf("decoding %s: %w", r.Key, err)
	}
	return m, nil
}

// put is the Put of a resource under its name.
func put(name, etag string, m proto.Message) (Put, error) {
	value, err := proto.Marshal(m)
	if err != nil {
		return Put{}, fmt.Errorf("encoding %s: %w", name, err)
	}
	return Put{Key: Key(name), Value: value, Etag: etag}, nil
}
