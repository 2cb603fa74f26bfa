// Package redisstore keeps the resources in Redis: the store of many servers and
// sidecars.
//
// It needs Redis 7.0 or later, or Valkey. Each read and each Txn is one function of Redis,
// which runs alone: nobody sees half a change, and every reader asks the primary. Servers
// load the functions, sidecars call them (functions.go). What was acknowledged is as durable as
// that Redis is set up to be; it must not evict keys. A failover may lose the last
// changes, which sidecars notice by the nonces of the changes. The layout is in
// keys.go. Next to it this package has no state: processes share a Redis freely.
package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"understudy/admin"
	"understudy/authz"
)

// Store implements admin.Store and authz.Feed. It is safe for concurrent use.
type Store struct {
	// short is for calls that answer at once, bulk for those whose answers may be
	// long, or long in coming.
	short, bulk redis.UniversalClient
	// answer is how long an answer of short may take.
	answer  time.Duration
	watches *watches
	now     func() time.Time
	// stream is the number of changes kept for each location.
	stream int
	// sidecar says that this process loads no functions.
	sidecar bool
	// login is how this process shows Redis who it is.
	login login
}

var (
	_ admin.Store = (*Store)(nil)
	_ authz.Feed  = (*Store)(nil)
)

// Option changes how a Store works.
type Option func(*Store)

// WithClock sets the clock that records expire by; the default is the system's.
// Nodes are always timed by the clock of Redis.
func WithClock(now func() time.Time) Option { return func(s *Store) { s.now = now } }

// WithStreamLength sets the number of changes that are kept for each location. A
// follower that is further behind loads everything. The default is 10,000.
func WithStreamLength(n int) Option { return func(s *Store) { s.stream = max(1, n) } }

// AsSidecar says that the process is a sidecar without the admin API: it never loads functions,
// which its user of Redis may not, and waits for those of its version.
func AsSidecar() Option { return func(s *Store) { s.sidecar = true } }

// WithPasswordFile names the file with the password of the URL's user. It is read for each
// new connection. White space at its end is no part of the password.
func WithPasswordFile(path string) Option {
	return func(s *Store) { s.login.password = passwordFile(path) }
}

// Open returns a Store on the Redis of a URL. The forms are
//
//	redis://[[user]:password@]host[:port][/database][?option=value]
//	rediss://…                  the same with TLS
//	unix://[[user]:password@]/path/of/socket[?db=database]
//	redis+cluster://…[?addr=host:port&addr=…]
//	                            a Redis Cluster, by any of its nodes; rediss+cluster with TLS
//	redis+sentinel://[[user]:password@]host[:port]/name[/database][?addr=host:port…]
//	redis+sentinel://[[user]:password@]host[:port][/database]?master_name=name[&addr=host:port…]
//	                            what the Sentinels say is the primary; rediss+sentinel with TLS.
//	                            The user and password before the @ are those of the Sentinels,
//	                            the options username and password those of Redis
//
// with the options of go-redis, such as dial_timeout=500ms.
//
// It does not connect to Redis yet: Probe does. No error contains the password.
func Open(url string, options ...Option) (*Store, error) {
	s := &Store{now: time.Now, stream: 10_000}
	for _, o := range options {
		o(s)
	}
	connect, err := s.login.parse(url)
	if err != nil {
		return nil, err
	}
	s.short, s.bulk = connect(shortTimeout), connect(bulkTimeout)
	s.answer = answerTimeout(s.short)
	s.watches = newWatches(s.bulk)
	return s, nil
}

// Probe asks Redis for a sign of life, and loads the functions unless the process is a
// sidecar alone. The error wraps ErrRefused if Redis answered and wants nothing of this
// client, as for a wrong password, ErrNoPrimary if no Sentinel knows the primary,
// ErrCertificate if a certificate was not accepted, ErrTooOld if
// it has no functions, and admin.ErrUnavailable if it did not answer.
func (s *Store) Probe(ctx context.Context) error {
	err := s.short.Ping(ctx).Err()
	if err == nil && !s.sidecar {
		err = s.loadWhereMissing(ctx)
	}
	if errors.Is(err, redis.Nil) {
		return fmt.Errorf("%w: %w", ErrNoPrimary, err) // nothing else answers a PING so
	}
	if err != nil && isReply(err) && !isTransient(err) && !isTooOld(err) {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return failure(ctx, "probing", err, false)
}

// Close lets go of all connections. Calls under way fail.
func (s *Store) Close() error {
	errShort, errBulk := s.short.Close(), s.bulk.Close()
	s.watches.wait()
	if errShort != nil {
		return errShort
	}
	return errBulk
}

var readFunction = function{name: "read", readOnly: true}

// Get implements admin.Store.
func (s *Store) Get(ctx context.Context, keys ...admin.Key) ([]admin.Record, error) {
	return s.get(ctx, keys, false)
}

// Summaries implements admin.Store.
func (s *Store) Summaries(ctx context.Context, keys ...admin.Key) ([]admin.Summary, error) {
	found, err := s.get(ctx, keys, true)
	return asSummaries(found), err
}

// List implements admin.Store.
func (s *Store) List(ctx context.Context, q admin.Query) ([]admin.Record, error) {
	return s.list(ctx, q, false)
}

// ListSummaries implements admin.Store.
func (s *Store) ListSummaries(ctx context.Context, q admin.Query) ([]admin.Summary, error) {
	found, err := s.list(ctx, q, true)
	return asSummaries(found), err
}

// get is Get, of summaries if they are wanted.
func (s *Store) get(ctx context.Context, keys []admin.Key, summaries bool) ([]admin.Record, error) {
	if len(keys) == 0 {
		return nil, ctx.Err()
	}
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = string(key)
	}
	found, err := s.read(ctx, "reading", request{names: names, summaries: summaries})
	if err != nil {
		return nil, err
	}
	byKey := make(map[admin.Key]admin.Record, len(found.records))
	for _, r := range found.records {
		byKey[r.Key] = r
	}
	out := make([]admin.Record, len(keys))
	for i, key := range keys {
		out[i] = byKey[key]
	}
	return out, nil
}

// list is List, of summaries if they are wanted.
func (s *Store) list(ctx context.Context, q admin.Query, summaries bool) ([]admin.Record, error) {
	if acrossLocations(q.Collection) {
		return s.listAcross(ctx, q, summaries)
	}
	found, err := s.read(ctx, "listing", request{spans: spansOf(q, nil), limit: q.Limit, summaries: summaries})
	return found.records, err
}

// asSummaries says what records are whose values were not read.
func asSummaries(records []admin.Record) []admin.Summary {
	out := make([]admin.Summary, len(records))
	for i, r := range records {
		out[i] = admin.Summary(r)
	}
	return out
}

// listAcross lists a collection of every location: of all that there are at the instant of
// the reading.
func (s *Store) listAcross(ctx context.Context, q admin.Query, summaries bool) ([]admin.Record, error) {
	project := authz.ResourceName(q.Collection).Project()
	for {
		locations, err := s.locations(ctx, project)
		if err != nil {
			return nil, err
		}
		found, err := s.read(ctx, "listing", request{
			spans: spansOf(q, locations), limit: q.Limit, countLocations: project, summaries: summaries,
		})
		if err != nil || found.locations == len(locations) {
			return found.records, err
		}
	}
}

// locations returns the IDs of the locations that have had a record. They only get more.
func (s *Store) locations(ctx context.Context, project string) (ids []string, err error) {
	err = call(ctx, "listing the locations of "+project, func(ctx context.Context) (err error) {
		ids, err = s.short.SMembers(ctx, keysOfProject(project).locations()).Result()
		return err
	})
	return ids, err
}

// request is what read.lua reads at one instant.
type request struct {
	names []string
	spans []span
	// limit is the number of records at most; 0 means all.
	limit int
	// headOf is the location whose head is wanted; empty means none.
	headOf authz.Location
	// countLocations is the ID of the project whose number of locations is wanted; empty
	// means none.
	countLocations string
	// summaries says that values are not wanted where there are summaries.
	summaries bool
	// bulk says that the answer may be long.
	bulk bool
}

// encode returns KEYS and ARGV of read.lua.
func (r request) encode(now time.Time) (keys []string, args []any) {
	numbers := make(map[partition]int)
	number := func(p partition) int {
		if numbers[p] == 0 {
			numbers[p] = len(numbers) + 1
			keys = append(keys, p.index(), p.versions(), p.values())
		}
		return numbers[p]
	}
	selected := []any{len(r.names)}
	for _, name := range r.names {
		of, _ := partitionOf(name)
		selected = append(selected, number(of), name)
	}
	for _, span := range r.spans {
		selected = append(selected, number(span.partition), span.min, span.max, span.template)
	}
	head, locations := "", ""
	if r.headOf != "" {
		head, keys = "head", append(keys, keysOf(string(r.headOf)).changes())
	}
	if r.countLocations != "" {
		locations, keys = "locations", append(keys, keysOfProject(r.countLocations).locations())
	}
	wanted := "values"
	if r.summaries {
		wanted = "summaries"
	}
	return keys, append([]any{now.UnixMilli(), len(numbers), head, locations, wanted, r.limit}, selected...)
}

// readReply is what read.lua has read.
type readReply struct {
	head      authz.Cursor
	locations int
	records   []admin.Record
}

// read runs read.lua: all that a request wants, at one instant.
func (s *Store) read(ctx context.Context, doing string, r request) (readReply, error) {
	client := s.short
	if r.bulk {
		client = s.bulk
	}
	keys, args := r.encode(s.now())
	var reply []any
	err := call(ctx, doing, func(ctx context.Context) (err error) {
		reply, err = s.run(ctx, client, readFunction, keys, args...).Slice()
		return err
	})
	if err != nil {
		return readReply{}, err
	}
	found, err := decodeReading(reply)
	if err != nil {
		return readReply{}, fmt.Errorf("%s: %w: %w", doing, admin.ErrUnavailable, err)
	}
	return found, nil
}

// decodeReading decodes what read.lua returns.
func decodeReading(reply []any) (out readReply, err error) {
	if len(reply) != 3 {
		return out, errReply
	}
	if out.head, err = decodeHead(reply[0]); err != nil {
		return out, err
	}
	locations, ok := reply[1].(int64)
	if !ok {
		return out, errReply
	}
	out.locations = int(locations)
	fields, err := texts(reply[2])
	if err != nil || len(fields)%4 != 0 {
		return out, errReply
	}
	for i := 0; i < len(fields); i += 4 {
		out.records = append(out.records, decodeRecord(fields[i], fields[i+1], fields[i+2], fields[i+3]))
	}
	return out, nil
}
