package redisstore

import (
	"cmp"
	"errors"
	"strconv"
	"strings"
	"time"

	"understudy/admin"
	"understudy/authz"
)

// The layout. Everything of a project P is in the one hash slot of {P}, so that a
// script can touch all of it on a Redis Cluster too:
//
//	understudy:{P}:sequence            string: the last sequence number
//	understudy:{P}:values              hash: resource name → value, the marshalled message
//	understudy:{P}:versions            hash: resource name → SEQUENCE EXPIRY ETAG
//	understudy:{P}:index               sorted set, all scores 0: KIND NAME of every record
//	understudy:{P}:expiries            sorted set: KIND NAME by expiry, of records that have one
//	understudy:{P}:done:ID             string: the sequence of a Txn that was made; kept for an hour
//	understudy:{P}:changes:LOCATION    stream: entries SEQUENCE-0, see below
//	understudy:{P}:nodes:LOCATION      hash: node name → marshalled Node
//	understudy:{P}:heartbeats:LOCATION sorted set: node name by the time of its report
//	understudy:{P}:evidence            set: EXPERIMENT UID of all of which there is evidence
//	understudy:{P}:evidence:UID:tallies
//	                                   hash: tally → SERIAL TIME NODE, TIME of its publication
//	understudy:{P}:evidence:UID:values hash: tally → marshalled Evidence
//	understudy:{P}:evidence:UID:over   sorted set: tally by the time at which it was settled; kept for a day
//	understudy:{P}:evidence:UID:serials
//	                                   hash: tally that is over → SERIAL of the publication that was settled
//	understudy:{P}:evidence:UID:settled
//	                                   hash: version → number of settlements, value → marshalled Evidence
//
// Sidecars write nodes, heartbeats, the set evidence, tallies and values, and nothing else;
// servers write everything. deploy/redis/users.conf has a user for each of the two: a key or
// a command that is new has to be there too, which TestUsers shows.
//
// Times are Unix milliseconds; EXPIRY is 0 for never. UID is that of an experiment. KIND is the name without its
// IDs, such as projects/locations/policies: a collection, also one with wildcards,
// is a range of the index in bytewise order of the names. NAME and LOCATION are
// resource names.
//
// An entry of a stream has the fields nonce; previous, the SEQUENCE NONCE of the
// change before ("0 " for the first); and policies, names separated by blanks. The
// location's head is the last entry. At least that one is kept for ever, so that a
// trimmed stream differs from an empty one.
type keys struct{ prefix string }

// keysOf returns the keys of the project that a resource name belongs to.
func keysOf(name string) keys { return projectKeys(authz.ResourceName(name).Project()) }

// projectKeys has the ID in braces: the hash tag that puts all keys of a project into one
// slot of a cluster, so that one script can use them.
func projectKeys(project string) keys { return keys{"understudy:{" + project + "}:"} }

func (k keys) sequence() string { return k.prefix + "sequence" }
func (k keys) values() string   { return k.prefix + "values" }
func (k keys) versions() string { return k.prefix + "versions" }
func (k keys) index() string    { return k.prefix + "index" }
func (k keys) expiries() string { return k.prefix + "expiries" }

func (k keys) done(txnID string) string { return k.prefix + "done:" + txnID }

func (k keys) changes(l authz.Location) string    { return k.prefix + "changes:" + string(l) }
func (k keys) nodes(l authz.Location) string      { return k.prefix + "nodes:" + string(l) }
func (k keys) heartbeats(l authz.Location) string { return k.prefix + "heartbeats:" + string(l) }

func (k keys) evidence() string { return k.prefix + "evidence" }

// evidenceOf returns the keys of the evidence of an experiment: its tallies, their values,
// those that are over, with their serials, and what was settled.
func (k keys) evidenceOf(uid string) (tallies, values, over, serials, settled string) {
	prefix := k.prefix + "evidence:" + uid + ":"
	return prefix + "tallies", prefix + "values", prefix + "over", prefix + "serials", prefix + "settled"
}

// kind returns the KIND of a resource name or of a collection.
func kind(name string) string {
	segments := strings.Split(name, "/")
	var collections []string
	for i := 0; i < len(segments); i += 2 {
		collections = append(collections, segments[i])
	}
	return strings.Join(collections, "/")
}

// member returns what stands for a record in the index.
func member(key admin.Key) string { return kind(string(key)) + " " + string(key) }

// span is a part of the index.
type span struct {
	// min and max are as ZRANGEBYLEX takes them.
	min, max string
	// pattern is a Lua pattern of the names; empty means that all in between match.
	pattern string
	// limit is the number of records at most; 0 means all.
	limit int
}

// newSpan returns the part of the index that a query is about.
func newSpan(q admin.Query) span {
	fixed, wild, _ := strings.Cut(string(q.Collection)+"/", "/-/")
	prefix := strings.TrimSuffix(fixed, "/") + "/"
	s := span{limit: q.Limit}
	if wild != "" || strings.HasSuffix(string(q.Collection), "/-") || q.ID != "" {
		s.pattern = luaPattern(q)
	}
	first := kind(string(q.Collection)) + " "
	s.min, s.max = "["+first+prefix, "("+first+after(prefix)
	if string(q.After) >= prefix {
		s.min = "(" + first + string(q.After)
	}
	return s
}

// after returns the first string behind all that begin with prefix, which ends
// with a slash.
func after(prefix string) string { return strings.TrimSuffix(prefix, "/") + string('/'+1) }

// luaPattern returns the Lua pattern of the names that a query is about. In its
// collection - is any segment.
func luaPattern(q admin.Query) string {
	const any = "[^/]+"
	var b strings.Builder
	b.WriteByte('^')
	for segment := range strings.SplitSeq(string(q.Collection), "/") {
		if segment == "-" {
			b.WriteString(any)
		} else {
			b.WriteString(luaLiteral(segment))
		}
		b.WriteByte('/')
	}
	b.WriteString(cmp.Or(luaLiteral(q.ID), any) + "$")
	return b.String()
}

// luaLiteral escapes what means something in a Lua pattern.
func luaLiteral(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if strings.IndexByte("^$()%.[]*+-?", s[i]) >= 0 {
			b.WriteByte('%')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// args are those of read.lua.
func (s span) args() []any { return []any{s.min, s.max, s.pattern, s.limit} }

// encodeExpiry is a time as it is stored; 0 is never.
func encodeExpiry(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// The states of a record in the replies of read.lua.
const (
	wholeRecord   = "1"
	damagedRecord = "0"
)

var errDamaged = errors.New("one of its entries in Redis is damaged or lost")

// decodeRecord makes a record of its entries in versions and values.
func decodeRecord(name, state, version, value string) admin.Record {
	sequence, rest, _ := strings.Cut(version, " ")
	expiry, etag, ok := strings.Cut(rest, " ")
	n, errSequence := strconv.ParseInt(sequence, 10, 64)
	ms, errExpiry := strconv.ParseInt(expiry, 10, 64)
	if state != wholeRecord || !ok || max(len(sequence), len(expiry)) > 18 || errSequence != nil || errExpiry != nil {
		return admin.Record{Key: admin.Key(name), Damage: errDamaged}
	}
	r := admin.Record{Key: admin.Key(name), Value: []byte(value), Etag: etag, Sequence: n}
	if ms != 0 {
		r.ExpireTime = time.UnixMilli(ms)
	}
	return r
}
