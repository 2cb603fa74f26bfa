// Package redisstore keeps the resources in Redis: the store of many machines.
//
// A Txn is one run of a Lua script, which Redis makes as a whole or not at all; a
// read of several records is one run of another. All keys of a project are in one
// slot, so the same works on a Redis Cluster. The package guarantees what
// admin.Store and authz.Feed promise as far as Redis keeps what it acknowledged:
// durability and failover are as its operator set them up, and a follower notices
// when Redis has gone back in time.
package redisstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"understudy/admin"
	"understudy/authz"
)

var (
	//go:embed commit.lua
	commitSource string
	//go:embed read.lua
	readSource string
	//go:embed nodes.lua
	nodesSource string

	commitScript = redis.NewScript(commitSource)
	readScript   = redis.NewScript(readSource)
	nodesScript  = redis.NewScript(nodesSource)
)

// Store implements admin.Store and authz.Feed. It is safe for concurrent use.
type Store struct {
	client redis.UniversalClient
	// followers waits for changes. It has connections of its own, so that those
	// who wait take none from those who work.
	followers redis.UniversalClient
	now       func() time.Time
	stream    int
}

var (
	_ admin.Store = (*Store)(nil)
	_ authz.Feed  = (*Store)(nil)
)

// Option changes how a Store works.
type Option func(*Store)

// WithClock sets the clock that records expire by. The default is the system's.
func WithClock(now func() time.Time) Option { return func(s *Store) { s.now = now } }

// WithStreamLength sets the number of changes that are kept for each location, at
// least; Redis may keep some more. A follower that is further behind loads
// everything. The default is 10,000.
func WithStreamLength(n int) Option { return func(s *Store) { s.stream = max(1, n) } }

// Open connects to the Redis of a URL:
//
//	redis://[user:password@]host:port[/db]           one server; rediss:// with TLS
//	unix://[user:password@]/path/to.sock[?db=0]      one server on a socket
//	redis+cluster://host:port[?addr=host2:port2]     a cluster; rediss+cluster:// with TLS
//	redis+sentinel://host:port/db?master_name=name[&addr=host2:port2]
//	                                                 behind Sentinels; rediss+sentinel:// with TLS
//
// Further settings are query parameters, such as dial_timeout. The error is one of
// the URL, or that of the first call to a server that does not answer.
func Open(ctx context.Context, url string, options ...Option) (*Store, error) {
	client, err := connect(url)
	if err != nil {
		return nil, err
	}
	followers, err := connect(url)
	if err != nil {
		return nil, err
	}
	s := &Store{client: client, followers: followers, now: time.Now, stream: 10_000}
	for _, o := range options {
		o(s)
	}
	return s, nil
}

// Close ends all connections.
func (s *Store) Close() error { return errors.Join(s.client.Close(), s.followers.Close()) }

// errURL says what a URL has to look like. It quotes nothing: a URL may have a
// password.
var errURL = errors.New("the URL of the store has to be like redis://host:6379, rediss://, unix:///path, " +
	"redis+cluster:// or redis+sentinel://host:26379/0?master_name=name")

const (
	// dialTimeout bounds how long a server that is down holds a call up.
	dialTimeout = time.Second
	// callTimeout bounds one try of a call.
	callTimeout = 3 * time.Second
)

func connect(url string) (redis.UniversalClient, error) {
	scheme, rest, _ := strings.Cut(url, "://")
	plain, flavour, _ := strings.Cut(scheme, "+")
	switch flavour {
	case "":
		o, err := redis.ParseURL(url)
		if err != nil {
			return nil, errURL
		}
		o.DialTimeout, o.ContextTimeoutEnabled = dialTimeout, true
		o.ReadTimeout, o.WriteTimeout = callTimeout, callTimeout
		return redis.NewClient(o), nil
	case "cluster":
		o, err := redis.ParseClusterURL(plain + "://" + rest)
		if err != nil {
			return nil, errURL
		}
		o.DialTimeout, o.ContextTimeoutEnabled = dialTimeout, true
		o.ReadTimeout, o.WriteTimeout = callTimeout, callTimeout
		return redis.NewClusterClient(o), nil
	case "sentinel":
		o, err := redis.ParseFailoverURL(plain + "://" + rest)
		if err != nil || o.MasterName == "" {
			return nil, errURL
		}
		o.DialTimeout, o.ContextTimeoutEnabled = dialTimeout, true
		o.ReadTimeout, o.WriteTimeout = callTimeout, callTimeout
		return redis.NewFailoverClient(o), nil
	default:
		return nil, errURL
	}
}

// Get implements admin.Store.
func (s *Store) Get(ctx context.Context, keys ...admin.Key) ([]admin.Record, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	args := []any{milliseconds(s.now()), "get"}
	for _, k := range keys {
		args = append(args, string(k))
	}
	reply, err := s.read(ctx, projectOf(string(keys[0])), args)
	if err != nil {
		return nil, fmt.Errorf("reading: %w", err)
	}
	out := make([]admin.Record, len(keys))
	for i, k := range keys {
		if out[i], err = parseRecord(k, reply[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// List implements admin.Store.
func (s *Store) List(ctx context.Context, q admin.Query) ([]admin.Record, error) {
	segments := strings.Split(string(q.Collection), "/")
	prefix := ""
	for _, segment := range segments {
		if segment == "-" {
			break
		}
		prefix += segment + "/"
	}
	args := []any{milliseconds(s.now()), "list", kindOf(q.Collection), prefix, string(q.After), q.Limit}
	for _, segment := range segments {
		args = append(args, segment)
	}
	reply, err := s.read(ctx, projectOf(string(q.Collection)), args)
	if err != nil {
		return nil, fmt.Errorf("listing: %w", err)
	}
	var out []admin.Record
	for i := 0; i+1 < len(reply); i += 2 {
		key, _ := reply[i].(string)
		r, err := parseRecord(admin.Key(key), reply[i+1])
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// read runs the script that reads. A read may be tried again without harm.
func (s *Store) read(ctx context.Context, project string, args []any) ([]any, error) {
	reply, err := readScript.Run(ctx, s.client, []string{base(project)}, args...).Slice()
	if err != nil {
		return nil, unavailable(ctx, err)
	}
	return reply, nil
}

// unavailable is the error of a call that changed nothing.
func unavailable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %w", admin.ErrUnavailable, err)
}

// neverSent reports whether a call failed before Redis can have seen it, or was
// refused by it as a whole.
func neverSent(err error) bool {
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return true
	}
	if errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) || errors.Is(err, redis.ErrClosed) {
		return true
	}
	var refused redis.Error
	return errors.As(err, &refused)
}
