package redisstore

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"understudy/admin"
	"understudy/authz"
)

// The layout in Redis. All keys of a project have its ID in braces, so that they
// share one slot of a Redis Cluster and one script can touch any of them:
//
//	understudy:{p1}:sequence                  string: the last sequence number
//	understudy:{p1}:record:<resource name>    hash: value   the marshalled message
//	                                                etag    the resource's etag
//	                                                sequence  of its last change
//	                                                expire  Unix milliseconds; 0 for never
//	understudy:{p1}:index:<kind>              sorted set, all scores 0: the names of the
//	                                          records of a kind, such as
//	                                          policies or policies/experiments
//	understudy:{p1}:changes:<location>        stream: ID       <sequence>-0
//	                                                  nonce    of the change
//	                                                  previous cursor of the change before
//	                                                  policies their names, one a line
//	understudy:{p1}:head:<location>           string: cursor of the last change
//	understudy:{p1}:nodes:<location>          hash: node name → time of the report in Unix
//	                                                microseconds, a space, the marshalled Node
//	understudy:{p1}:done:<txn id>             string, one hour: sequence of a Txn that was made
//
// A cursor is <sequence>-<nonce>. A record past its expiry is treated as absent by
// every script; Redis deletes it a day later by itself, and its name goes from the
// index when a list meets it.
const prefix = "understudy:"

// expireGrace is how long Redis keeps an expired record, so that a clock that is
// ahead cannot delete what another one still sees.
const expireGrace = 24 * time.Hour

func base(project string) string { return prefix + "{" + project + "}:" }

// projectOf returns the project of a resource name or collection.
func projectOf(name string) string {
	segments := strings.SplitN(name, "/", 3)
	if len(segments) < 2 {
		return ""
	}
	return segments[1]
}

// kindOf returns the index of the records of a collection: the names of the
// collections in it, less those of project and location.
func kindOf(c admin.Collection) string {
	segments := strings.Split(string(c), "/")
	var kind []string
	for i := 4; i < len(segments); i += 2 {
		kind = append(kind, segments[i])
	}
	return strings.Join(kind, "/")
}

// collectionOf returns the collection that a key is in.
func collectionOf(key admin.Key) admin.Collection {
	if i := strings.LastIndexByte(string(key), '/'); i >= 0 {
		return admin.Collection(key[:i])
	}
	return admin.Collection(key)
}

func locationOf(name string) authz.Location {
	segments := strings.SplitN(name, "/", 5)
	return authz.Location(strings.Join(segments[:min(4, len(segments))], "/"))
}

func formatCursor(c authz.Cursor) string {
	if c == (authz.Cursor{}) {
		return ""
	}
	return strconv.FormatInt(c.Sequence, 10) + "-" + c.Nonce
}

func parseCursor(text string) (authz.Cursor, error) {
	if text == "" {
		return authz.Cursor{}, nil
	}
	number, nonce, _ := strings.Cut(text, "-")
	sequence, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return authz.Cursor{}, fmt.Errorf("the cursor %q is damaged", text)
	}
	return authz.Cursor{Sequence: sequence, Nonce: nonce}, nil
}

// parseRecord reads what the scripts return of a record: its value, etag, sequence
// and expiry, or nothing if it is absent.
func parseRecord(key admin.Key, reply any) (admin.Record, error) {
	fields, ok := reply.([]any)
	if !ok || len(fields) == 0 {
		return admin.Record{}, nil
	}
	if len(fields) != 4 {
		return admin.Record{}, fmt.Errorf("the record of %s is damaged", key)
	}
	texts := make([]string, len(fields))
	for i, f := range fields {
		texts[i], _ = f.(string)
	}
	sequence, err := strconv.ParseInt(texts[2], 10, 64)
	if err != nil {
		return admin.Record{}, fmt.Errorf("the record of %s is damaged: %w", key, err)
	}
	r := admin.Record{Key: key, Value: []byte(texts[0]), Etag: texts[1], Sequence: sequence}
	if ms, _ := strconv.ParseInt(texts[3], 10, 64); ms != 0 {
		r.ExpireTime = time.UnixMilli(ms)
	}
	return r, nil
}

func milliseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
