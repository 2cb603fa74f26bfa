package main

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// userCount and pathCount bound what zipf repeats: 200,000 pairs, of which few are
	// frequent.
	userCount = 1000
	pathCount = 200
	// zipfExponent: the most frequent of 1,000 users sends about a sixth of all.
	zipfExponent = 1.1
	// signedTokens is how many tokens each user has where the signature of RS256 has to be
	// right: RSA is too slow to sign for each request, so that a token comes again after so
	// many of its user.
	signedTokens = 4
	// renewal is how often a user comes with a new token where tokens are renewed: once in
	// so many requests.
	renewal = 20
	// lifetime is how long tokens are valid: longer than any run, so that no decision
	// changes while servers are compared.
	lifetime = 6 * time.Hour
)

// trafficKind is how requests follow one another.
type trafficKind string

const (
	// zipf: 1,000 users × 200 paths, a few of them in most requests.
	zipf trafficKind = "zipf"
	// rest: each request is of a resource of its own, whose ID is in the path; users follow
	// Zipf's law, and get new tokens from time to time.
	rest trafficKind = "rest"
	// unique: no path and no token comes twice (but see signedTokens).
	unique trafficKind = "unique"
)

// trafficKinds are all kinds.
var trafficKinds = []trafficKind{zipf, rest, unique}

// methods are as frequent as they stand here: seven of ten requests read.
var methods = []string{"GET", "GET", "GET", "GET", "GET", "GET", "GET", "POST", "POST", "DELETE"}

// user is a caller, with the parts of its requests that are always the same, already
// encoded.
type user struct {
	token  token
	source []byte // the peer, encoded
	xfcc   string
	// metadata is there if Envoy verifies the tokens.
	metadata metadata
}

// path is the target of a request: prefix and number are the path, and number is
// replaced where nothing may repeat.
type path struct {
	method, prefix, number, body string
}

// traffic is what streams of requests are made of: users and paths, shared by all
// senders. Nothing changes after newTraffic but the counter and who has which token, so
// it is safe for concurrent use. A stream adds what is new in each request:
//
//	traffic (1,000 users, 200 paths) --newStream(seed)--> stream --next--> CheckRequest, encoded
type traffic struct {
	kind      trafficKind
	algorithm algorithm
	keys      *keys
	// renews: tokens get new IDs.
	renews bool
	// verified: Envoy verifies the tokens and sends their claims as metadata.
	verified bool
	// users are all users with a token each; after them, all again with another, as often as
	// each has tokens.
	users       []user
	paths       []path
	destination []byte
	// current are the users with the tokens that they have now, where these are renewed.
	current [userCount]atomic.Pointer[user]
	// nextUser counts the requests of all streams for which users come in turn.
	nextUser atomic.Uint64
}

// newTraffic makes users and paths for the tokens that a policy takes. The same
// requests come in every run, but for keys and times: all random numbers have fixed
// seeds, so that two runs differ by what is measured.
func newTraffic(kind trafficKind, p policySpec, k *keys) (*traffic, error) {
	t := &traffic{
		kind: kind, algorithm: p.Algorithm, keys: k, verified: p.Claims, renews: p.Algorithm == hs256 || !p.Verifies,
		users: make([]user, userCount), paths: make([]path, pathCount),
	}
	if kind != zipf && !t.renews {
		t.users = make([]user, signedTokens*userCount)
	}
	r := rand.New(rand.NewPCG(5, 6))
	for i := range t.paths {
		p := path{
			method: methods[r.IntN(len(methods))],
			prefix: "/api/v1/" + resources[i%len(resources)] + "/", number: fmt.Sprintf("%012d", i),
		}
		if p.method == "POST" {
			p.body = fmt.Sprintf(`{"article":"a-%04d","quantity":%d,"note":"leave it at the door"}`, i, 1+r.IntN(12))
		}
		t.paths[i] = p
	}
	t.destination = encodePeer("10.1.7.4", 8080, "orders")
	err := t.signUsers()
	for i := range t.current {
		t.current[i].Store(&t.users[i])
	}
	return t, err
}

// signUsers makes all users, on all processors: RSA takes about a millisecond for each.
func (t *traffic) signUsers() error {
	var wait sync.WaitGroup
	errs := make(chan error, len(t.users))
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		wait.Go(func() {
			for i := w; i < len(t.users); i += workers {
				var err error
				if t.users[i], err = t.newUser(i); err != nil {
					errs <- err
				}
			}
		})
	}
	wait.Wait()
	close(errs)
	return <-errs
}

// userName is the subject of a token, and the key in the data of the policy large.
func userName(i int) string { return fmt.Sprintf("user-%05d", i) }

// newUser makes a user with the token of a number. One in twenty has a token that has expired,
// so that policies which look at that deny something, and servers have to look.
func (t *traffic) newUser(n int) (user, error) {
	i := n % userCount
	r := rand.New(rand.NewPCG(7, uint64(i)))
	c := claims{
		Issuer: "https://issuer.example.com", Subject: userName(i), Audience: "shop", Tenant: fmt.Sprintf("tenant-%02d", i%40),
		Roles: []string{roleNames[min(r.IntN(8)/3, 2)]}, Email: userName(i) + "@example.com", Session: fmt.Sprintf("%016x", r.Uint64()),
		Issued: time.Now().Add(-lifetime).Unix() + int64(n/userCount), Expires: time.Now().Add(lifetime).Unix(),
	}
	if i%20 == 19 {
		c.Expires = time.Now().Add(-time.Hour).Unix()
	}
	var id [idSize]byte
	copy(id[:], fmt.Sprintf("%018d", n))
	signed, err := t.keys.sign(t.algorithm, id, c)
	if err != nil {
		return user{}, fmt.Errorf("signing a token: %w", err)
	}
	var verified metadata
	if t.verified {
		if verified, err = newMetadata(string(id[:]), c); err != nil {
			return user{}, fmt.Errorf("encoding claims: %w", err)
		}
	}
	account := fmt.Sprintf("web-%d", i%7)
	return user{
		token:  signed,
		source: encodePeer(fmt.Sprintf("10.2.%d.%d", i%250, r.IntN(250)), 20000+r.Uint64N(40000), account),
		xfcc: "By=spiffe://cluster.local/ns/shop/sa/orders;Hash=" + fmt.Sprintf("%064x", r.Uint64()) +
			`;Subject="";URI=spiffe://cluster.local/ns/shop/sa/` + account,
		metadata: verified,
	}, nil
}

// encodePeer encodes a peer with its address and its name in the mesh.
func encodePeer(address string, port uint64, account string) []byte {
	socket := appendNumber(appendField(nil, socketAddress, address), socketPort, port)
	peer := appendField(nil, peerAddress, appendField(nil, addressSocket, socket))
	return appendField(peer, peerPrincipal, "spiffe://cluster.local/ns/shop/sa/"+account)
}

// stream makes one sequence of requests. It is for one goroutine; its buffers are used
// again for each request, so that making one allocates nothing and takes about 2 µs.
type stream struct {
	*traffic
	random  *rand.Rand
	byUser  *rand.Zipf
	byPath  *rand.Zipf
	renewer *renewer
	// serial makes what must not repeat. Streams with different seeds share none.
	serial uint64

	// Buffers, from the inside of a message to its outside.
	token, headers, http, request, attributes []byte // scratch
	number                                    []byte
}

// newStream returns the stream of a seed, below 2^20. serial counts from seed<<36,
// which leaves 2^36 requests, a day at 800,000 a second, before it could meet the next
// stream's.
func (t *traffic) newStream(seed uint64) *stream {
	r := rand.New(rand.NewPCG(8, seed))
	return &stream{
		traffic: t, random: r, renewer: newRenewer(t.keys, t.algorithm), serial: seed << 36,
		byUser: rand.NewZipf(r, zipfExponent, 1, uint64(userCount-1)),
		byPath: rand.NewZipf(r, zipfExponent, 1, uint64(len(t.paths)-1)),
	}
}

// next appends the next CheckRequest, encoded, to dst.
func (s *stream) next(dst []byte) []byte {
	u, p, number := s.pick()
	return s.append(dst, u, p, number)
}

// pick chooses the user and the path, and makes the token. With zipf both follow the
// distribution, and with rest as well, but for the ID in the path; with unique the users
// come one after the other over all streams, so that each signed token is as far as
// possible from its last use.
func (s *stream) pick() (*user, *path, []byte) {
	s.serial++
	frequent, p := s.byUser.Uint64(), &s.paths[s.byPath.Uint64()]
	u := &s.users[frequent]
	number := append(s.number[:0], p.number...)
	s.token = append(s.token[:0], "Bearer "...)
	switch s.kind {
	case unique:
		u, p = s.inTurn(), &s.paths[s.random.IntN(len(s.paths))]
		number = strconv.AppendUint(number[:0], s.serial, 10)
		s.token = s.renewed(s.token, u)
	case rest:
		u = s.rotated(frequent)
		number = appendUUID(number[:0], s.ids())
		s.token = append(s.token, u.token.text...)
	default:
		s.token = append(s.token, u.token.text...)
	}
	s.number = number
	return u, p, number
}

// inTurn returns the next of all users.
func (t *traffic) inTurn() *user { return &t.users[t.nextUser.Add(1)%uint64(len(t.users))] }

// rotated returns a user with the token that it has now. Now and then that is a new one,
// which it keeps until the next; where none can be made, another of its signed ones.
func (s *stream) rotated(number uint64) *user {
	current := &s.current[number]
	u := current.Load()
	if s.random.IntN(renewal) > 0 {
		return u
	}
	if s.renews {
		renewed := *u
		renewed.token.text = s.renewed(make([]byte, 0, len(u.token.text)), u)
		u = &renewed
	} else {
		u = &s.users[number+userCount*s.random.Uint64N(signedTokens)]
	}
	current.Store(u)
	return u
}

// ids returns 16 random bytes.
func (s *stream) ids() (out [16]byte) {
	binary.LittleEndian.PutUint64(out[:], s.random.Uint64())
	binary.LittleEndian.PutUint64(out[8:], s.random.Uint64())
	return out
}

// renewed appends a token that has not been sent before, as far as that can be. The ID
// is the serial number in letters, a to p for each half of a byte: any other byte could
// need escapes in the JSON of the token, and would move what follows.
func (s *stream) renewed(dst []byte, u *user) []byte {
	if !s.renews {
		return append(dst, u.token.text...)
	}
	var id [idSize]byte
	binary.BigEndian.PutUint64(id[:], s.serial)
	for i, b := range id[:9] {
		id[9+i], id[i] = 'a'+b&15, 'a'+b>>4
	}
	return s.renewer.renew(dst, u.token, id)
}

// append appends a CheckRequest with fresh IDs and the present time. A message is
// encoded from the inside out, since its length comes before its content.
func (s *stream) append(dst []byte, u *user, p *path, number []byte) []byte {
	now := time.Now()
	s.http = s.appendHTTP(s.http[:0], u, p, number)

	r := s.request[:0]
	r = appendTime(r, now)
	r = appendField(r, requestHTTP, s.http)
	s.request = r

	a := s.attributes[:0]
	a = appendField(a, attributesSource, u.source)
	a = appendField(a, attributesDestination, s.destination)
	a = appendField(a, attributesRequest, r)
	if u.metadata == nil {
		a = appendField(a, attributesMetadata, "")
	} else {
		a = u.metadata.append(a, s.random)
	}
	a = appendField(a, attributesRoute, "")
	s.attributes = a
	return appendField(dst, checkAttributes, a)
}

func appendTime(dst []byte, now time.Time) []byte {
	var scratch [24]byte
	t := appendNumber(scratch[:0], timeSeconds, uint64(now.Unix()))
	t = appendNumber(t, timeNanos, uint64(now.Nanosecond()))
	return appendField(dst, requestTime, t)
}

// host is the authority of all requests: a service of the mesh.
const host = "orders.shop.svc.cluster.local"

// appendHTTP appends an AttributeContext.HttpRequest with its headers in a random
// order.
func (s *stream) appendHTTP(dst []byte, u *user, p *path, number []byte) []byte {
	var scratch [96]byte
	target := append(append(scratch[:0], p.prefix...), number...)
	var id [20]byte
	dst = appendField(dst, httpID, strconv.AppendUint(id[:0], s.random.Uint64(), 10))
	dst = appendField(dst, httpMethod, p.method)
	s.headers = s.appendHeaders(s.headers[:0], u, p, target)
	dst = appendShuffled(dst, s.headers, s.random)
	dst = appendField(dst, httpPath, target)
	dst = appendField(dst, httpHost, host)
	dst = appendField(dst, httpScheme, "http")
	dst = s.appendSize(dst, len(p.body))
	dst = appendField(dst, httpProtocol, "HTTP/1.1")
	if p.body != "" {
		dst = appendField(dst, httpBody, p.body)
	}
	return dst
}

// appendSize appends the size of the body. Where there is none, Envoy says -1, "unknown",
// as attribute_context.proto has it. Except with rest, half of those who ask say nothing.
func (s *stream) appendSize(dst []byte, size int) []byte {
	switch {
	case size > 0:
		return appendNumber(dst, httpSize, uint64(size))
	case s.kind == rest || s.random.IntN(2) == 0:
		return appendNumber(dst, httpSize, math.MaxUint64)
	}
	return dst
}

// appendHeaders appends 15 headers, and two for a body: those that a request has behind
// Istio's ingress gateway, pseudo headers included, as Envoy sends them.
func (s *stream) appendHeaders(dst []byte, u *user, p *path, target []byte) []byte {
	ids := s.ids()
	var requestID [36]byte
	var traceparent [55]byte

	dst = appendEntry(dst, httpHeaders, ":authority", host)
	dst = appendEntry(dst, httpHeaders, ":method", p.method)
	dst = appendEntry(dst, httpHeaders, ":path", target)
	dst = appendEntry(dst, httpHeaders, ":scheme", "http")
	dst = appendEntry(dst, httpHeaders, "accept", "application/json, text/plain, */*")
	dst = appendEntry(dst, httpHeaders, "accept-encoding", "gzip, deflate, br")
	dst = appendEntry(dst, httpHeaders, "accept-language", "en-GB,en;q=0.9")
	dst = appendEntry(dst, httpHeaders, "authorization", s.token)
	if p.body != "" {
		dst = appendEntry(dst, httpHeaders, "content-length", strconv.AppendInt(ids[:0:0], int64(len(p.body)), 10))
		dst = appendEntry(dst, httpHeaders, "content-type", "application/json")
	}
	dst = appendEntry(dst, httpHeaders, "traceparent", appendTraceparent(traceparent[:0], ids))
	dst = appendEntry(dst, httpHeaders, "user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
	dst = appendEntry(dst, httpHeaders, "x-envoy-attempt-count", "1")
	dst = appendEntry(dst, httpHeaders, "x-forwarded-client-cert", u.xfcc)
	dst = appendEntry(dst, httpHeaders, "x-forwarded-for", "203.0.113.17")
	dst = appendEntry(dst, httpHeaders, "x-forwarded-proto", "https")
	return appendEntry(dst, httpHeaders, "x-request-id", appendUUID(requestID[:0], ids))
}

// appendTraceparent appends the header of W3C Trace Context, sampled. The parent is a
// part of the trace ID: nobody looks at it, and one random number is saved.
func appendTraceparent(dst []byte, ids [16]byte) []byte {
	dst = append(dst, "00-"...)
	dst = hex.AppendEncode(dst, ids[:])
	dst = append(dst, '-')
	dst = hex.AppendEncode(dst, ids[4:12])
	return append(dst, "-01"...)
}

// appendUUID appends bytes in the form of a UUID, 8-4-4-4-12 digits. The version bits
// are not set; Envoy's request IDs are only compared as text.
func appendUUID(dst []byte, id [16]byte) []byte {
	begin := 0
	for _, end := range []int{4, 6, 8, 10, 16} {
		if begin > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, id[begin:end])
		begin = end
	}
	return dst
}
