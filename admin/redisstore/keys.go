package redisstore

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"understudy/admin"
	"understudy/authz"
)

// The layout. Everything of a project P is in the one hash slot of {P}, so that a
// function can touch all of it on a Redis Cluster too:
//
//	understudy:{P}:sequence   string: the last sequence number
//	understudy:{P}:watermark  string: the number of the last Txn that raised it
//	understudy:{P}:done:ID    string: the sequence of a Txn that was made; kept for an hour
//	understudy:{P}:locations  set: the IDs of all locations that have had a record
//
// What belongs to a location L is below understudy:{P}/L/, and what sidecars may do with it
// is in the next segment: read what is in feed/, read and write what is in reports/, and
// neither in control/. deploy/redis/users.conf has a user for the sidecars of one location.
// An ID of a location has no slash, so no pattern of one fits the keys of another.
//
//	feed/changes                 stream: entries SEQUENCE-0, see below
//	feed/watermark               hash: number → the project's watermark
//	feed/evidence/UID/over       sorted set: tally by the time at which it was compacted; kept for two days
//	feed/evidence/UID/serials    hash: tally that is over → SERIAL of the publication that was compacted
//	feed/contents/UID            hash: number → a chunk of the content of a dataset's version, behind
//	                             its CRC-32C; expiry → EXPIRY, if it has one. The key expires then, too
//	reports/nodes                hash: node name → marshalled Node
//	reports/heartbeats           sorted set: node name by the time of its report
//	reports/watermarks           sorted set: node name by the highest watermark that it knows
//	reports/evidence             set: EXPERIMENT UID of all of which there is evidence
//	reports/evidence/UID/tallies hash: tally → SERIAL TIME NODE, TIME of its publication
//	reports/evidence/UID/values  hash: tally → marshalled Evidence
//	control/evidence/UID/compacted hash: version → number of compactions, value → marshalled Evidence
//
// Records are in partitions, with four keys each. Policies, experiments and datasets are in that
// of feed/, all other records of the location in that of control/, and those of no location,
// such as the bindings of the project, in that of understudy:{P}: itself:
//
//	values    hash: resource name → value, the marshalled message;
//	          NAME summary → its summary, if it is not the value
//	versions  hash: resource name → SEQUENCE EXPIRY ETAG
//	index     sorted set, all scores 0: KIND NAME of every record
//	expiries  sorted set: KIND NAME by expiry, of records that have one
//
// Times are Unix milliseconds; EXPIRY is 0 for never. UID is that of an experiment, or of a version. KIND is the name without its
// IDs, such as projects/locations/policies: a collection is a range of the index, in
// bytewise order of the names. NAME is a resource name.
//
// An entry of a stream has the fields nonce; previous, the SEQUENCE NONCE of the
// change before ("0 " for the first); policies and datasets, names separated by blanks. The
// location's head is the last entry. At least that one is kept for ever, so that a
// trimmed stream differs from an empty one.

// projectKeys are the keys of a project.
type projectKeys struct{ prefix string }

// keysOfProject has the ID in braces: the hash tag that puts all keys of a project into one
// slot of a cluster, so that one function can use them.
func keysOfProject(id string) projectKeys { return projectKeys{keyPrefix + id + "}"} }

const keyPrefix = "understudy:{"

// nodesPattern matches the keys with the nodes of all locations.
var nodesPattern = keysOfProject("*").location("*").nodes()

// locationOf returns the location that a key belongs to, one that is below one.
func locationOf(key string) string {
	project, rest, _ := strings.Cut(strings.TrimPrefix(key, keyPrefix), "}/")
	id, _, _ := strings.Cut(rest, "/")
	return "projects/" + project + "/locations/" + id
}

func (k projectKeys) sequence() string         { return k.prefix + ":sequence" }
func (k projectKeys) watermark() string        { return k.prefix + ":watermark" }
func (k projectKeys) done(txnID string) string { return k.prefix + ":done:" + txnID }
func (k projectKeys) locations() string        { return k.prefix + ":locations" }

// location returns the keys of the location with an ID.
func (k projectKeys) location(id string) locationKeys { return locationKeys{k.prefix + "/" + id + "/"} }

// locationKeys are the keys of a location.
type locationKeys struct{ prefix string }

// keysOf returns the keys of the location that a resource name belongs to.
func keysOf(name string) locationKeys {
	location := authz.ResourceName(authz.ResourceName(name).Location())
	return keysOfProject(location.Project()).location(location.ID())
}

func (k locationKeys) feed(key string) string    { return k.prefix + "feed/" + key }
func (k locationKeys) reports(key string) string { return k.prefix + "reports/" + key }
func (k locationKeys) control(key string) string { return k.prefix + "control/" + key }

func (k locationKeys) changes() string           { return k.feed("changes") }
func (k locationKeys) content(uid string) string { return k.feed("contents/" + uid) }
func (k locationKeys) nodes() string             { return k.reports("nodes") }
func (k locationKeys) heartbeats() string        { return k.reports("heartbeats") }
func (k locationKeys) watermark() string         { return k.feed("watermark") }
func (k locationKeys) watermarks() string        { return k.reports("watermarks") }
func (k locationKeys) evidence() string          { return k.reports("evidence") }

// evidenceOf returns the keys of the evidence of an experiment: its tallies, their values,
// those that are over, with their serials, and what was compacted.
func (k locationKeys) evidenceOf(uid string) (tallies, values, over, serials, compacted string) {
	of := "evidence/" + uid + "/"
	return k.reports(of + "tallies"), k.reports(of + "values"), k.feed(of + "over"), k.feed(of + "serials"), k.control(of + "compacted")
}

// partition is the prefix of the keys of some records.
type partition string

func (p partition) index() string    { return string(p) + "index" }
func (p partition) versions() string { return string(p) + "versions" }
func (p partition) values() string   { return string(p) + "values" }
func (p partition) expiries() string { return string(p) + "expiries" }

// feedKinds are the KINDs of what sidecars read.
var feedKinds = map[string]bool{
	"projects/locations/policies": true, "projects/locations/policies/experiments": true, "projects/locations/datasets": true,
}

// partitionOf returns the partition of a record, and the ID of its location; empty if it is
// of none. All records of a collection are in the partition of any of them.
func partitionOf(name string) (of partition, location string) {
	id, inLocation := locationID(name)
	if !inLocation {
		return partition(keysOfProject(authz.ResourceName(name).Project()).prefix + ":"), ""
	}
	if feedKinds[kind(name)] {
		return partition(keysOf(name).feed("")), id
	}
	return partition(keysOf(name).control("")), id
}

// locationID returns the ID of the location that a record is in; a location itself is in none.
func locationID(name string) (id string, ok bool) {
	segments := strings.SplitN(name, "/", 5)
	if len(segments) < 5 || segments[2] != "locations" {
		return "", false
	}
	return segments[3], true
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

// wildcard stands for any location in a Query.
const wildcard = "-"

// span is a part of an index.
type span struct {
	partition partition
	// min and max are as ZRANGEBYLEX takes them.
	min, max string
	// template is a name in which anySegment stands for any segment; empty means that all
	// names in between match.
	template string
}

// anySegment is in no name.
const anySegment = "*"

// spansOf returns the parts of indexes that a query is about, in the order of their names.
// locations are the IDs of those that - stands for.
func spansOf(q admin.Query, locations []string) (out []span) {
	if !acrossLocations(q.Collection) {
		return []span{newSpan(q)}
	}
	// Names go on with a slash after the ID.
	slices.SortFunc(locations, func(a, b string) int { return cmp.Compare(a+"/", b+"/") })
	segments := strings.Split(string(q.Collection), "/")
	for _, id := range locations {
		segments[3] = id
		one := q
		one.Collection = admin.Collection(strings.Join(segments, "/"))
		out = append(out, newSpan(one))
	}
	return out
}

// acrossLocations reports whether a collection is one of every location.
func acrossLocations(c admin.Collection) bool {
	id, ok := locationID(string(c))
	return ok && id == wildcard
}

// newSpan returns the part of the index that a query of one partition is about.
func newSpan(q admin.Query) span {
	of, _ := partitionOf(string(q.Collection) + "/" + anySegment)
	fixed, wild, _ := strings.Cut(string(q.Collection)+"/", "/-/")
	prefix := strings.TrimSuffix(fixed, "/") + "/"
	s := span{partition: of}
	// Without a further ID, the KIND and the beginning of a name say all.
	if q.ID != "" || hasID(wild) {
		s.template = strings.ReplaceAll(string(q.Collection)+"/", "/-/", "/"+anySegment+"/") + cmp.Or(q.ID, anySegment)
	}
	first := kind(string(q.Collection)) + " "
	s.min, s.max = "["+first+prefix, "("+first+after(prefix)
	if string(q.After) >= prefix {
		s.min = "(" + first + string(q.After)
	}
	return s
}

// spanOf returns the part of the index with the policies of a location whose IDs have a beginning,
// or with the experiments of those policies. It is the part of the collection, from there on.
func spanOf(c admin.Collection, beginning string) span {
	s := newSpan(admin.Query{Collection: c})
	if beginning != "" {
		fixed := strings.TrimPrefix(s.min, "[") + beginning
		s.min, s.max = "["+fixed, "("+fixed+afterIDs
	}
	return s
}

// afterIDs is behind each character of an ID, and each slash, in bytewise order.
const afterIDs = "\x7f"

// hasID reports whether there is an ID among the segments of a collection behind its first
// wildcard, which begin and end with a name.
func hasID(segments string) bool {
	for i, segment := range strings.Split(segments, "/") {
		if i%2 == 1 && segment != "" && segment != wildcard {
			return true
		}
	}
	return false
}

// after returns the first string behind all that begin with prefix, which ends
// with a slash.
func after(prefix string) string { return strings.TrimSuffix(prefix, "/") + string('/'+1) }

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
