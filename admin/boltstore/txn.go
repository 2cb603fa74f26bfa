package boltstore

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"understudy/admin"
	"understudy/authz"
)

const (
	// doneKept is how long a Txn can be repeated.
	doneKept = time.Hour
	// expiredKept is for how long expired records stay, unseen, so that a clock
	// that is set wrong for a moment destroys nothing.
	expiredKept = time.Hour
	// removedAtOnce bounds what one Txn removes of each that is outdated: more than
	// it adds, as a rule.
	removedAtOnce = 16
)

// commit makes a Txn: all conditions first, then all writes.
func (s *Store) commit(tx *bbolt.Tx, txn admin.Txn) (int64, error) {
	p, err := makeProject(tx, txn.Project)
	if err != nil {
		return 0, err
	}
	if done := p.done.Get([]byte(txn.ID)); done != nil {
		return decodeUint(done), nil
	}
	watermark := p.watermark()
	if watermark > 0 && watermark < txn.Known && !txn.Accepts {
		return 0, admin.ErrWentBack
	}
	now := s.now()
	if err := p.check(txn.Conditions, now); err != nil {
		return 0, err
	}
	if err := p.removeOutdated(now); err != nil {
		return 0, err
	}
	// By the clock, numbers go on where they were even if the file is an older copy.
	sequence := max(decodeUint(p.root.Get(keySequence))+1, time.Now().UnixMilli(), txn.Known+1)
	if err := p.write(txn, sequence, now); err != nil {
		return 0, err
	}
	if txn.Raises || watermark == 0 {
		if err := p.root.Put(keyWatermark, encodeUint(sequence)); err != nil {
			return 0, err
		}
	}
	return sequence, p.append(txn.Events, sequence, s.stream)
}

// check returns the error of the first condition that does not hold.
func (p *project) check(conditions []admin.Condition, now time.Time) error {
	for i, c := range conditions {
		holds, err := p.holds(c, now)
		if err != nil {
			return err
		}
		if !holds {
			return &admin.ConditionError{Index: i, Condition: c}
		}
	}
	return nil
}

// watermark returns the project's watermark, as admin.Store has it.
func (p *project) watermark() int64 {
	switch {
	case p.root == nil || p.root.Get(keySequence) == nil:
		return 0
	case p.root.Get(keyWatermark) == nil:
		return 1 // all changes are of a version that kept none
	default:
		return decodeUint(p.root.Get(keyWatermark))
	}
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
	id := []byte(txn.ID)
	if err := p.doneTimes.Put(timed(time.Now().UnixMilli(), id), nil); err != nil {
		return err
	}
	return p.done.Put(id, encodeUint(sequence))
}

// holds checks a condition on what the transaction sees. bbolt runs one writing
// transaction at a time, so what holds here still holds when the writes are made.
func (p *project) holds(c admin.Condition, now time.Time) (bool, error) {
	switch c := c.(type) {
	case admin.Exists:
		r := get(p, c.Key, now)
		return r.Key != "" && (c.Etag == "" || c.Etag == r.Etag), nil
	case admin.Absent:
		return get(p, c.Key, now).Key == "", nil
	case admin.Unchanged:
		r := get(p, c.Key, now)
		return r.Key != "" && r.Sequence == c.Sequence, nil
	case admin.FewerThan:
		n := 0
		p.scan(newPattern(c.Collection), "", now, func(entry) bool { n++; return n < c.N })
		return n < c.N, nil
	case admin.Complete:
		return p.complete(c.Content, now), nil
	default:
		return false, fmt.Errorf("unknown condition %T", c)
	}
}

// apply makes one write. Writes that follow see it.
func (p *project) apply(w admin.Write, sequence int64, now time.Time) error {
	switch w := w.(type) {
	case admin.Put:
		e := entry{admin.Record{Key: w.Key, Value: w.Value, Etag: w.Etag, Sequence: w.Sequence, ExpireTime: w.ExpireTime}, w.Summary}
		if e.Sequence == 0 {
			e.Sequence = sequence
		}
		return p.put(e)
	case admin.Delete:
		return p.remove([]byte(w.Key))
	case admin.DeleteCollection:
		return p.deleteCollection(w.Collection)
	case admin.TrimCollection:
		return p.trimCollection(w, now)
	case admin.ExpireCollection:
		return p.expireCollection(w, now)
	case admin.ExpireContent:
		return p.expireContent(w, now)
	default:
		return fmt.Errorf("unknown write %T", w)
	}
}

// deleteCollection removes expired records too.
func (p *project) deleteCollection(c admin.Collection) error {
	var keys []admin.Key
	p.scan(newPattern(c), "", time.Time{}, func(e entry) bool {
		keys = append(keys, e.Key)
		return true
	})
	for _, key := range keys {
		if err := p.remove([]byte(key)); err != nil {
			return err
		}
	}
	return nil
}

// trimCollection removes the records that were written longest ago.
func (p *project) trimCollection(w admin.TrimCollection, now time.Time) error {
	records := p.collect(w.Collection, now)
	if len(records) <= w.Keep {
		return nil
	}
	slices.SortFunc(records, func(a, b entry) int {
		return cmp.Or(cmp.Compare(b.Sequence, a.Sequence), cmp.Compare(b.Key, a.Key))
	})
	for _, e := range records[w.Keep:] {
		if err := p.remove([]byte(e.Key)); err != nil {
			return err
		}
	}
	return nil
}

// expireCollection changes the expiry of the records that are there.
func (p *project) expireCollection(w admin.ExpireCollection, now time.Time) error {
	for _, e := range p.collect(w.Collection, now) {
		e.ExpireTime = w.ExpireTime
		if err := p.put(e); err != nil {
			return err
		}
	}
	return nil
}

// collect returns the records of a collection that have not expired and are not damaged.
func (p *project) collect(c admin.Collection, now time.Time) (records []entry) {
	p.scan(newPattern(c), "", now, func(e entry) bool {
		if e.Damage == nil {
			records = append(records, e)
		}
		return true
	})
	return records
}

// append adds a change to the stream of each location and trims it.
func (p *project) append(events []admin.Event, sequence int64, keep int) error {
	for _, e := range events {
		stream, err := p.changes.CreateBucketIfNotExists([]byte(e.Location))
		if err != nil {
			return err
		}
		entry, err := encodeChange(change{newNonce(), head(stream), e.Policies, e.Datasets})
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
func head(stream *bbolt.Bucket) authz.Cursor {
	if stream == nil {
		return authz.Cursor{}
	}
	key, value := stream.Cursor().Last()
	if key == nil {
		return authz.Cursor{}
	}
	return authz.Cursor{Sequence: decodeUint(key), Nonce: decodeChange(value).Nonce}
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

// removeExpired removes the record of an entry of expiries, if that is its expiry: an
// entry whose record was damaged may be left behind, and there may be another record of
// the name by now.
func (p *project) removeExpired(entry []byte) error {
	name := entry[8:]
	if expiryOf(p.records.Get(name)) == decodeUint(entry[:8]) {
		return p.remove(name)
	}
	return p.expiries.Delete(entry)
}

// removeOutdated removes some of the records that expired, and of the notes of
// Txns that were made, too long ago to matter.
func (p *project) removeOutdated(now time.Time) error {
	for _, key := range oldest(p.expiries, now.Add(-expiredKept)) {
		if err := p.removeExpired(key); err != nil {
			return err
		}
	}
	for _, key := range oldest(p.doneTimes, time.Now().Add(-doneKept)) {
		if err := p.doneTimes.Delete(key); err != nil {
			return err
		}
		if err := p.done.Delete(key[8:]); err != nil {
			return err
		}
	}
	return nil
}

// oldest returns the first keys of a bucket that is in order of time, up to a time.
func oldest(b *bbolt.Bucket, until time.Time) [][]byte {
	var keys [][]byte
	c := b.Cursor()
	for key, _ := c.First(); key != nil && len(keys) < removedAtOnce; key, _ = c.Next() {
		if len(key) < 8 || decodeUint(key[:8]) > until.UnixMilli() {
			break
		}
		keys = append(keys, bytes.Clone(key))
	}
	return keys
}
