// Package redisstore keeps the resources in Redis: the store of many servers and
// sidecars.
//
// Each read and each Txn is one script, which Redis runs alone: nobody sees half a
// change, and every reader asks the primary. What was acknowledged is as durable as
// that Redis is set up to be; it must not evict keys. A failover may lose the last
// changes, which sidecars notice by the nonces of the changes. The layout is in
// keys.go. Beside it this package has no state: processes share a Redis freely.
package redisstore

import (
	"context"
	_ "embed"
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
	watches     *watches
	now         func() time.Time
	// stream is the number of changes kept for each location.
	stream int
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

// Open returns a Store on the Redis of a URL. The forms are
//
//	redis://[[user]:password@]host[:port][/database][?option=value]
//	rediss://…                  the same with TLS
//	unix://[[user]:password@]/path/of/socket[?db=database]
//	redis+cluster://…[?addr=host:port&addr=…]
//	                            a Redis Cluster, by any of its nodes; rediss+cluster with TLS
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
	connect, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	s.short, s.bulk = connect(shortTimeout), connect(bulkTimeout)
	s.watches = newWatches(s.bulk)
	return s, nil
}

// Probe asks Redis for a sign of life. The error wraps ErrRefused if Redis answered and
// wants nothing of this client, as for a wrong password, and admin.ErrUnavailable if it
// did not answer.
func (s *Store) Probe(ctx context.Context) error {
	err := s.short.Ping(ctx).Err()
	if err != nil && isReply(err) && !isTransient(err) {
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

var (
	//go:embed read.lua
	readSource string
	readScript = redis.NewScript(readSource)
)

// Get implements admin.Store.
func (s *Store) Get(ctx context.Context, keys ...admin.Key) ([]admin.Record, error) {
	if len(keys) == 0 {
		return nil, ctx.Err()
	}
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = string(key)
	}
	found, err := s.read(ctx, "reading", request{keys: keysOf(names[0]), names: names})
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

// List implements admin.Store.
func (s *Store) List(ctx context.Context, q admin.Query) ([]admin.Record, error) {
	found, err := s.read(ctx, "listing", request{keys: keysOf(string(q.Collection)), spans: []span{newSpan(q)}})
	return found.records, err
}

// request is what read.lua reads at one instant.
type request struct {
	keys  keys
	names []string
	spans []span
	// location is the one whose head is wanted; empty means none.
	location authz.Location
	// bulk says that the answer may be long.
	bulk bool
}

// reading is what read.lua has read.
type reading struct {
	head    authz.Cursor
	records []admin.Record
}

// read runs read.lua: all that a request wants, at one instant.
func (s *Store) read(ctx context.Context, doing string, r request) (reading, error) {
	client := s.short
	if r.bulk {
		client = s.bulk
	}
	keys := []string{r.keys.index(), r.keys.versions(), r.keys.values()}
	if r.location != "" {
		keys = append(keys, r.keys.changes(r.location))
	}
	args := []any{s.now().UnixMilli(), len(r.names)}
	for _, name := range r.names {
		args = append(args, name)
	}
	for _, span := range r.spans {
		args = append(args, span.args()...)
	}
	var reply []any
	err := call(ctx, doing, func(ctx context.Context) (err error) {
		reply, err = readScript.Run(ctx, client, keys, args...).Slice()
		return err
	})
	if err != nil {
		return reading{}, err
	}
	found, err := decodeReading(reply)
	if err != nil {
		return reading{}, fmt.Errorf("%s: %w: %w", doing, admin.ErrUnavailable, err)
	}
	return found, nil
}

// decodeReading decodes what read.lua returns.
func decodeReading(reply []any) (out reading, err error) {
	if len(reply) != 2 {
		return out, errReply
	}
	if out.head, err = decodeHead(reply[0]); err != nil {
		return out, err
	}
	fields, err := texts(reply[1])
	if err != nil || len(fields)%4 != 0 {
		return out, errReply
	}
	for i := 0; i < len(fields); i += 4 {
		out.records = append(out.records, decodeRecord(fields[i], fields[i+1], fields[i+2], fields[i+3]))
	}
	return out, nil
}
