package boltstore

import (
	"encoding/binary"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"understudy/admin"
	"understudy/authz"
)

// doneKept is how long a Txn can be repeated.
const doneKept = time.Hour

// commit makes a Txn: all conditions first, then all writes.
func (s *Store) commit(tx *bbolt.Tx, txn admin.Txn) (int64, error) {
	p, err := makeProject(tx, txn.Project)
	if err != nil {
		return 0, err
	}
	if done := p.done.Get([]byte(txn.ID)); len(done) == 16 {
		return decodeUint(done[:8]), nil
	}
	now := s.now()
	for i, c := range txn.Conditions {
		holds, err := p.holds(c, now)
		if err != nil {
			return 0, err
		}
		if !holds {
			return 0, &admin.ConditionError{Index: i, Condition: c}
		}
	}
	sequence := decodeUint(p.root.Get(keySequence)) + 1
	if err := p.write(txn, sequence, now); err != nil {
		return 0, err
	}
	return sequence, p.append(txn.Events, sequence, s.stream)
}

// write makes the writes of a Txn and notes that it was made.
func (p *project) write(txn admin.Txn, sequence int64, now time.Time) error {
	if err := p.root.Put(keySequence, encodeUint(sequence)); err != nil {
		return err
	}
	for _, w := range txn.Writes {
		if err := p.apply(w, sequence, now); err != nil {
			return err
		}
	}
	if err := p.forgetDone(now); err != nil {
		return err
	}
	return p.done.Put([]byte(txn.ID), append(encodeUint(sequence), encodeUint(time.Now().UnixMilli())...))
}

func (p *project) holds(c admin.Condition, now time.Time) (bool, error) {
	switch c := c.(type) {
	case admin.Exists:
		r, err := get(p, c.Key, now)
		return r.Key != "" && (c.Etag == "" || c.Etag == r.Etag), err
	case admin.Absent:
		r, err := get(p, c.Key, now)
		return r.Key == "", err
	case admin.Unchanged:
		r, err := get(p, c.Key, now)
		return r.Key != "" && r.Sequence == c.Sequence, err
	case admin.FewerThan:
		n := 0
		err := p.scan(newPattern(c.Collection), "", now, func(admin.Record) bool { n++; return n < c.N })
		return n < c.N, err
	default:
		return false, fmt.Errorf("unknown condition %T", c)
	}
}

func (p *project) apply(w admin.Write, sequence int64, now time.Time) error {
	switch w := w.(type) {
	case admin.Put:
		r := admin.Record{Key: w.Key, Value: w.Value, Etag: w.Etag, Sequence: w.Sequence, ExpireTime: w.ExpireTime}
		if r.Sequence == 0 {
			r.Sequence = sequence
		}
		return p.records.Put([]byte(w.Key), encodeRecord(r))
	case admin.Delete:
		return p.records.Delete([]byte(w.Key))
	case admin.DeleteCollection:
		return p.deleteCollection(w.Collection)
	default:
		return fmt.Errorf("unknown write %T", w)
	}
}

// deleteCollection removes expired records too.
func (p *project) deleteCollection(c admin.Collection) error {
	var keys []admin.Key
	err := p.scan(newPattern(c), "", time.Time{}, func(r admin.Record) bool {
		keys = append(keys, r.Key)
		return true
	})
	for _, key := range keys {
		if err == nil {
			err = p.records.Delete([]byte(key))
		}
	}
	return err
}

// append adds a change to the stream of each location and trims it.
func (p *project) append(events []admin.Event, sequence int64, keep int) error {
	for _, e := range events {
		stream, err := p.changes.CreateBucketIfNotExists([]byte(e.Location))
		if err != nil {
			return err
		}
		previous, err := head(stream)
		if err != nil {
			return err
		}
		entry, err := encodeChange(change{newNonce(), previous, e.Policies})
		if err != nil {
			return err
		}
		if err := stream.Put(encodeUint(sequence), entry); err != nil {
			return err
		}
		if err := trim(stream, keep); err != nil {
			return err
		}
	}
	return nil
}

// head returns the cursor of the last change of a stream.
func head(stream *bbolt.Bucket) (authz.Cursor, error) {
	if stream == nil {
		return authz.Cursor{}, nil
	}
	key, value := stream.Cursor().Last()
	if key == nil {
		return authz.Cursor{}, nil
	}
	c, err := decodeChange(value)
	return authz.Cursor{Sequence: decodeUint(key), Nonce: c.Nonce}, err
}

// trim removes the oldest changes until keep are left. A stream grows by one
// between two calls, so the count is kept in its own sequence.
func trim(stream *bbolt.Bucket, keep int) error {
	n := stream.Sequence() + 1
	for c := stream.Cursor(); n > uint64(keep); n-- {
		if key, _ := c.First(); key == nil {
			break
		}
		if err := c.Delete(); err != nil {
			return err
		}
	}
	return stream.SetSequence(n)
}

// forgetDone removes notes of Txns that are too old to be repeated, a few at each
// call.
func (p *project) forgetDone(time.Time) error {
	const atMost = 4
	before := time.Now().Add(-doneKept).UnixMilli()
	var old [][]byte
	c := p.done.Cursor()
	// Keys are random IDs: start at a random one, so that all are visited in time.
	key, value := c.Seek([]byte(newNonce()[:2]))
	for range atMost {
		if key == nil {
			break
		}
		if len(value) == 16 && int64(binary.BigEndian.Uint64(value[8:])) < before {
			old = append(old, append([]byte{}, key...))
		}
		key, value = c.Next()
	}
	for _, key := range old {
		if err := p.done.Delete(key); err != nil {
			return err
		}
	}
	return nil
}
