package redisstore

import (
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	dialTimeout = 700 * time.Millisecond
	// shortTimeout bounds one answer that comes at once, bulkTimeout one that may
	// hold everything of a location.
	shortTimeout = 3 * time.Second
	bulkTimeout  = 30 * time.Second
	// bulkPool is room for one connection for each location that is followed.
	bulkPool = 100
)

// Failures are returned. The client library would log them as well.
func init() { logging.Disable() }

var (
	errURL = errors.New("the URL of the store is not valid: its form is " +
		"redis://[[user]:password@]host[:port][/database][?option=value], or the same with rediss, unix, " +
		"redis+cluster (without database) or redis+sentinel, which alone name several hosts; in a user name or password, write each of : / ? # [ ] @ % as %XX")
	errSentinel = errors.New("the URL of the store is not valid, or does not name the primary: its form is " +
		"redis+sentinel://host:port[,host:port…]/NAME[/DATABASE], or redis+sentinel://host:port[/DATABASE]?master_name=NAME, " +
		"with the NAME by which the Sentinels know the primary, once, and a DATABASE from 0 on")
)

// connector makes a client whose calls end after a time, unless the URL says
// otherwise.
type connector func(timeout time.Duration) redis.UniversalClient

// login is how a client shows a Redis who it is, next to what the URL says.
type login struct {
	// password has the password; empty if that is in the URL, or there is none.
	password passwordFile
	// tls is the argument of WithTLS; nil if there is none.
	tls func() *tls.Config
}

// parse is parseURL of a URL that goes with the login.
func (l login) parse(text string) (connector, error) {
	connect, err := parseURL(text, l)
	if err == nil && l.tls != nil && !strings.HasPrefix(text, "rediss") {
		return nil, ErrNoTLS
	}
	return connect, err
}

// parseURL returns what connects to the Redis of a URL. The reasons that the parsers
// give may quote a part of the password, so they are dropped.
func parseURL(text string, l login) (connector, error) {
	scheme, rest, _ := strings.Cut(text, "://")
	switch scheme {
	case "redis", "rediss", "unix":
		o, err := parseSingleURL(text)
		if err != nil {
			return nil, err
		}
		if o.CredentialsProviderContext, err = l.password.of(o.Username, o.Password); err != nil {
			return nil, err
		}
		o.Dialer = newDialer(o.TLSConfig, o.DialTimeout, l.tls)
		return func(timeout time.Duration) redis.UniversalClient { return single(*o, timeout) }, nil
	case "redis+cluster", "rediss+cluster":
		o, err := parseClusterURL(strings.TrimSuffix(scheme, "+cluster") + "://" + rest)
		if err != nil {
			return nil, err
		}
		if o.CredentialsProviderContext, err = l.password.of(o.Username, o.Password); err != nil {
			return nil, err
		}
		o.Dialer = newDialer(o.TLSConfig, o.DialTimeout, l.tls)
		return func(timeout time.Duration) redis.UniversalClient { return cluster(*o, timeout) }, nil
	case "redis+sentinel", "rediss+sentinel":
		o, err := parseSentinelURL(strings.TrimSuffix(scheme, "+sentinel") + "://" + rest)
		if err != nil {
			return nil, err
		}
		if o.CredentialsProviderContext, err = l.password.of(o.Username, o.Password); err != nil {
			return nil, err
		}
		o.Dialer = newDialer(o.TLSConfig, o.DialTimeout, l.tls)
		return func(timeout time.Duration) redis.UniversalClient { return sentinel(*o, timeout) }, nil
	default:
		return nil, errURL
	}
}

func parseSingleURL(text string) (*redis.Options, error) {
	o, err := redis.ParseURL(text)
	if err != nil || o.DB < 0 || o.Network == "tcp" && !areAddresses([]string{o.Addr}) {
		return nil, errURL
	}
	return o, nil
}

// parseClusterURL parses a URL without a database, of which a Cluster has none.
func parseClusterURL(text string) (*redis.ClusterOptions, error) {
	o, err := redis.ParseClusterURL(text)
	if u, wrong := url.Parse(text); err != nil || wrong != nil || strings.Trim(u.Path, "/") != "" || !areAddresses(o.Addrs) {
		return nil, errURL
	}
	return o, nil
}

// sentinelPort is the port of a Sentinel if the URL names no other.
const sentinelPort = "26379"

// firstHost returns a URL of several hosts with the first of them alone, and the others.
func firstHost(text string) (first string, others []string) {
	scheme, rest, _ := strings.Cut(text, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	begin := strings.LastIndexByte(rest[:end], '@') + 1
	hosts := strings.Split(rest[begin:end], ",")
	return scheme + "://" + rest[:begin] + hosts[0] + rest[end:], hosts[1:]
}

// parseSentinelURL parses a URL whose path is [/DATABASE] or /NAME[/DATABASE]. A first segment that is a number is
// the database. Several Sentinels are hosts with commas between, or ?addr=HOST:PORT for each but the first.
func parseSentinelURL(text string) (*redis.FailoverOptions, error) {
	text, others := firstHost(text)
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || slices.Contains(others, "") {
		return nil, errSentinel
	}
	addSentinels(u, others)
	name, database, _ := strings.Cut(strings.Trim(u.Path, "/"), "/")
	if _, err := strconv.Atoi(name); err != nil && name != "" {
		query := u.Query()
		if query.Has("master_name") {
			return nil, errSentinel
		}
		query.Set("master_name", name)
		u.Path, u.RawPath, u.RawQuery = "/"+database, "", query.Encode()
	}
	o, err := redis.ParseFailoverURL(u.String())
	if err != nil || o.MasterName == "" || o.DB < 0 || !areAddresses(o.SentinelAddrs) {
		return nil, errSentinel
	}
	return o, nil
}

// addSentinels adds other hosts to a URL, as options.
func addSentinels(u *url.URL, hosts []string) {
	if len(hosts) == 0 {
		return
	}
	query := u.Query()
	for _, host := range hosts {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), sentinelPort)
		}
		query.Add("addr", host)
	}
	u.RawQuery = query.Encode()
}

// areAddresses reports whether all texts are a host with a port. The parsers take any text.
func areAddresses(texts []string) bool {
	return !slices.ContainsFunc(texts, func(text string) bool {
		host, port, err := net.SplitHostPort(text)
		n, invalid := strconv.ParseUint(port, 10, 16)
		return err != nil || invalid != nil || n == 0 || strings.Contains(host, ",")
	})
}

// The clients never repeat a command themselves: call does, which has to know
// whether one was sent.
const never = -1

var noNotifications = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}

// answerTimeout returns how long a client waits for an answer that comes at once: longer than by default if the URL says
// so.
func answerTimeout(of redis.UniversalClient) time.Duration {
	switch c := of.(type) {
	case *redis.Client:
		return max(shortTimeout, c.Options().ReadTimeout)
	case *redis.ClusterClient:
		return max(shortTimeout, c.Options().ReadTimeout)
	}
	return shortTimeout
}

// single is a client of one Redis.
func single(o redis.Options, timeout time.Duration) redis.UniversalClient {
	o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = never, 1, true
	o.MaintNotificationsConfig = noNotifications
	limits{&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout, &o.PoolSize}.fill(timeout)
	c := redis.NewClient(&o)
	c.AddHook(hook{})
	return c
}

// sentinel is a client that follows the primary which the Sentinels name.
func sentinel(o redis.FailoverOptions, timeout time.Duration) redis.UniversalClient {
	o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = never, 1, true
	o.ReplicaOnly, o.RouteByLatency, o.RouteRandomly, o.UseDisconnectedReplicas = false, false, false, false
	limits{&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout, &o.PoolSize}.fill(timeout)
	c := redis.NewFailoverClient(&o)
	c.AddHook(hook{})
	return c
}

// cluster reads from primaries only: a replica may not have the last write yet.
func cluster(o redis.ClusterOptions, timeout time.Duration) redis.UniversalClient {
	o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = never, 1, true
	o.ReadOnly, o.RouteByLatency, o.RouteRandomly = false, false, false
	o.MaintNotificationsConfig = noNotifications
	limits{&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout, &o.PoolSize}.fill(timeout)
	c := redis.NewClusterClient(&o)
	c.OnNewNode(func(node *redis.Client) { node.AddHook(hook{}) })
	return c
}

// limits are the options that have defaults of our own.
type limits struct {
	dial, read, write, pool *time.Duration
	size                    *int
}

// fill sets what the URL leaves open. What it names is left as it is: anyone who operates
// Redis knows more than we do.
func (l limits) fill(timeout time.Duration) {
	setDefault(l.dial, dialTimeout)
	setDefault(l.read, timeout)
	setDefault(l.write, timeout)
	setDefault(l.pool, dialTimeout)
	if timeout == bulkTimeout {
		*l.size = max(*l.size, bulkPool)
	}
}

// setDefault sets a duration that is not set.
func setDefault(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}
