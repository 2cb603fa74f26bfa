package boltstore

import (
	"bytes"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"understudy/admin"
)

// project is the buckets of one project in a transaction. All are nil if nothing
// was ever written for it.
type project struct {
	root, records, expiries, changes, nodes, done, doneTimes *bbolt.Bucket
	// unsummed says that there may be records of a version that wrote no checksums.
	unsummed bool
}

// openProject returns a project for reading.
func openProject(tx *bbolt.Tx, id string) *project {
	p := &project{root: tx.Bucket([]byte("projects/" + id))}
	if p.root != nil {
		p.records, p.expiries = p.root.Bucket(bucketRecords), p.root.Bucket(bucketExpiries)
		p.changes, p.nodes = p.root.Bucket(bucketChanges), p.root.Bucket(bucketNodes)
		p.done, p.doneTimes = p.root.Bucket(bucketDone), p.root.Bucket(bucketDoneTimes)
		p.unsummed = !bytes.Equal(p.root.Get(keyFormat), formatSummed)
	}
	return p
}

// makeProject returns a project for writing.
func makeProject(tx *bbolt.Tx, id string) (*project, error) {
	name := []byte("projects/" + id)
	if tx.Bucket(name) != nil {
		return openProject(tx, id), nil
	}
	root, err := tx.CreateBucket(name)
	if err != nil {
		return nil, err
	}
	if err := root.Put(keyFormat, formatSummed); err != nil {
		return nil, err
	}
	for _, name := range [][]byte{
		bucketRecords, bucketExpiries, bucketChanges, bucketNodes, bucketDone, bucketDoneTimes,
	} {
		if _, err := root.CreateBucket(name); err != nil {
			return nil, err
		}
	}
	return openProject(tx, id), nil
}

// get returns a record, or a zero one if there is none or it has expired.
func get(p *project, key admin.Key, now time.Time) entry {
	if p.records == nil {
		return entry{}
	}
	value := p.records.Get([]byte(key))
	if value == nil {
		return entry{}
	}
	e := decodeRecord([]byte(key), value, p.unsummed)
	if expired(e, now) {
		return entry{}
	}
	return e
}

// put stores a record in place of the one before.
func (p *project) put(e entry) error {
	encoded := encodeRecord(e)
	if err := p.remove([]byte(e.Key)); err != nil {
		return err
	}
	if !e.ExpireTime.IsZero() {
		if err := p.expiries.Put(timed(expiry(e.ExpireTime), []byte(e.Key)), nil); err != nil {
			return err
		}
	}
	return p.records.Put([]byte(e.Key), encoded)
}

// remove removes a record, if it is there, also one that has expired.
func (p *project) remove(key []byte) error {
	value := p.records.Get(key)
	if value == nil {
		return nil
	}
	if ms := expiryOf(value); ms != 0 {
		if err := p.expiries.Delete(timed(ms, key)); err != nil {
			return err
		}
	}
	return p.records.Delete(key)
}

// scan visits the records that match the pattern and have not expired, in the
// order of their keys, behind after, until visit returns false.
func (p *project) scan(pattern pattern, after admin.Key, now time.Time, visit func(entry) bool) {
	if p.records == nil {
		return
	}
	prefix := []byte(pattern.prefix)
	c := p.records.Cursor()
	key, value := c.Seek(prefix)
	if string(after) >= pattern.prefix {
		key, value = c.Seek([]byte(after))
		if string(key) == string(after) {
			key, value = c.Next()
		}
	}
	for ; key != nil && bytes.HasPrefix(key, prefix); key, value = c.Next() {
		if !pattern.matches(string(key)) {
			continue
		}
		if r := decodeRecord(key, value, p.unsummed); !expired(r, now) && !visit(r) {
			return
		}
	}
}

// pattern matches the keys of a collection, in which - stands for any segment.
type pattern struct {
	segments []string
	// id is the last segment of the keys; empty means any.
	id string
	// prefix begins every key that can match.
	prefix string
}

// newPattern finds the longest beginning that all keys have which can match: a scan reads
// no others.
func newPattern(c admin.Collection) pattern {
	p := pattern{segments: strings.Split(string(c), "/")}
	for _, s := range p.segments {
		if s == "-" {
			break
		}
		p.prefix += s + "/"
	}
	return p
}

// matches compares segment by segment. A key with more segments is of a collection
// further down.
func (p pattern) matches(key string) bool {
	segments := strings.Split(key, "/")
	if len(segments) != len(p.segments)+1 {
		return false
	}
	if p.id != "" && p.id != segments[len(segments)-1] {
		return false
	}
	for i, s := range p.segments {
		if s != "-" && s != segments[i] {
			return false
		}
	}
	return true
}
