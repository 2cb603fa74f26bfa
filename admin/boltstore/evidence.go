package boltstore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"understudy/admin"
	"understudy/authz"
)

// The evidence of an experiment is a bucket of its own, so that it is dropped as a whole:
//
//	compacted       the number of compactions, 8 bytes, and the sum, see sealed
//	tally/<tally> serial, time of publication in Unix nanoseconds and length of the node's
//	              name, 8 bytes each, the name and the value, see sealed
//	over/<tally>  when it was compacted, in Unix nanoseconds, and at which serial, 8 bytes each;
//	              kept for two days
//
// Numbers are big endian.
var keyCompacted = []byte("compacted")

const (
	prefixTally = "tally/"
	prefixOver  = "over/"
	// tallyHeader is the size of what is before the node's name.
	tallyHeader = 24
)

// sealed puts the CRC-32C of the key and the entry before the entry.
func sealed(key, entry []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, checksum(key, entry)), entry...)
}

// unsealed returns the entry without its checksum; it reports false if it is damaged.
func unsealed(key, b []byte) (entry []byte, whole bool) {
	if len(b) < 4 || binary.BigEndian.Uint32(b) != checksum(key, b[4:]) {
		return nil, false
	}
	return b[4:], true
}

// evidenceBucket is the name of the bucket of an experiment's evidence.
func evidenceBucket(name admin.EvidenceName) []byte {
	return []byte(string(name.Experiment) + " " + name.UID)
}

// openEvidence returns the bucket of an experiment's evidence; nil if there is none.
func openEvidence(tx *bbolt.Tx, name admin.EvidenceName) *bbolt.Bucket {
	p := openProject(tx, name.Experiment.Project())
	if p.root == nil {
		return nil
	}
	if all := p.root.Bucket(bucketEvidence); all != nil {
		return all.Bucket(evidenceBucket(name))
	}
	return nil
}

// Publish implements authz.Feed.
func (s *Store) Publish(ctx context.Context, node string, evidence []authz.PublishedEvidence) (out authz.Publication, err error) {
	now := time.Now()
	err = s.change(ctx, "publishing evidence", func(tx *bbolt.Tx) error {
		p, err := makeProject(tx, authz.ResourceName(node).Project())
		if err != nil {
			return err
		}
		for _, e := range evidence {
			stored, compacted, err := p.publish(node, e, now, s.now())
			if err != nil {
				return err
			}
			if !stored {
				out.Refused = append(out.Refused, authz.RefusedTally{Tally: e.Tally, Serial: compacted})
			}
		}
		out.Nodes = p.alive(node, now)
		return nil
	})
	if err != nil {
		return authz.Publication{}, err
	}
	return out, nil
}

// publish stores what a tally has counted; it reports false if the tally is over, with the
// serial that was compacted, or its experiment is gone. clock is the time that records expire by.
func (p *project) publish(node string, e authz.PublishedEvidence, now, clock time.Time) (stored bool, compacted int64, err error) {
	name := admin.EvidenceName{Experiment: admin.Key(e.Experiment), UID: e.UID}
	all, err := p.root.CreateBucketIfNotExists(bucketEvidence)
	if err != nil {
		return false, 0, err
	}
	key, known := []byte(prefixTally+e.Tally), false
	if b := all.Bucket(evidenceBucket(name)); b != nil {
		if over := b.Get([]byte(prefixOver + e.Tally)); over != nil {
			_, compacted = decodeOver(over)
			return false, compacted, nil
		}
		var before admin.TallyRecord
		if before, known = decodeTally(key, b.Get(key), now); known && before.Serial > e.Serial {
			return p.hasExperiment(e, known, clock), 0, nil
		}
	}
	if !p.hasExperiment(e, known, clock) {
		return false, 0, nil
	}
	b, err := all.CreateBucketIfNotExists(evidenceBucket(name))
	if err != nil {
		return false, 0, err
	}
	return true, 0, b.Put(key, encodeTally(key, node, e, now))
}

// hasExperiment reports whether the experiment of a tally is there. A value is looked into
// for the UID if the tally is not known.
func (p *project) hasExperiment(e authz.PublishedEvidence, known bool, clock time.Time) bool {
	r := get(p, admin.Key(e.Experiment), clock)
	return r.Key != "" && (known || r.Damage != nil || bytes.Contains(r.Value, []byte(e.UID)))
}

// alive is the number of nodes of the location of a node that report, with itself.
func (p *project) alive(node string, now time.Time) int {
	n, prefix := 1, string(authz.ResourceName(node).Location())+"/nodes/"
	c := p.nodes.Cursor()
	for key, value := c.Seek([]byte(prefix)); strings.HasPrefix(string(key), prefix); key, value = c.Next() {
		if len(value) >= 8 && string(key) != node && now.Sub(time.Unix(0, decodeUint(value[:8]))) < authz.NodeLifetime {
			n++
		}
	}
	return n
}

// encodeTally encodes what was published of a tally.
func encodeTally(key []byte, node string, e authz.PublishedEvidence, now time.Time) []byte {
	entry := make([]byte, 0, tallyHeader+len(node)+len(e.Value))
	for _, n := range []int64{e.Serial, now.UnixNano(), int64(len(node))} {
		entry = binary.BigEndian.AppendUint64(entry, uint64(n))
	}
	return sealed(key, append(append(entry, node...), e.Value...))
}

// decodeTally copies what it returns. It reports false if there is nothing, or if that is
// damaged.
func decodeTally(key, b []byte, now time.Time) (r admin.TallyRecord, whole bool) {
	entry, whole := unsealed(key, b)
	if !whole || len(entry) < tallyHeader {
		return r, false
	}
	length, rest := decodeUint(entry[16:tallyHeader]), entry[tallyHeader:]
	if length < 0 || length > int64(len(rest)) {
		return r, false
	}
	return admin.TallyRecord{
		Node: string(rest[:length]), Tally: strings.TrimPrefix(string(key), prefixTally), Serial: decodeUint(entry[:8]),
		Value: append([]byte{}, rest[length:]...),
		// A clock that was set back makes no publication come from the future.
		Age: max(0, now.Sub(time.Unix(0, decodeUint(entry[8:16])))),
	}, true
}

// Evidence implements admin.Store.
func (s *Store) Evidence(ctx context.Context, name admin.EvidenceName) (out admin.Evidence, err error) {
	now := time.Now()
	err = s.view(ctx, "reading evidence", func(tx *bbolt.Tx) error {
		b := openEvidence(tx, name)
		if b == nil {
			return nil
		}
		out.Version, out.Compacted, out.Damage = decodeCompacted(b.Get(keyCompacted))
		c := b.Cursor()
		for key, value := c.Seek([]byte(prefixTally)); strings.HasPrefix(string(key), prefixTally); key, value = c.Next() {
			r, whole := decodeTally(key, value, now)
			if !whole {
				out.Damaged = append(out.Damaged, strings.TrimPrefix(string(key), prefixTally))
				continue
			}
			out.Tallies = append(out.Tallies, r)
		}
		return nil
	})
	slices.SortFunc(out.Tallies, func(a, b admin.TallyRecord) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Tally, b.Tally))
	})
	return out, err
}

// decodeCompacted copies what it returns.
func decodeCompacted(b []byte) (version int64, value []byte, err error) {
	if b == nil {
		return 0, nil, nil
	}
	entry, whole := unsealed(keyCompacted, b)
	if !whole || len(entry) < 8 {
		return 0, nil, errDamaged
	}
	return decodeUint(entry[:8]), append([]byte{}, entry[8:]...), nil
}

// Compact implements admin.Store.
func (s *Store) Compact(ctx context.Context, compaction admin.Compaction) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := s.update(func(tx *bbolt.Tx) error {
		b := openEvidence(tx, compaction.EvidenceName)
		if b == nil {
			return admin.ErrChanged
		}
		return compact(b, compaction, time.Now())
	})
	if err != nil && !errors.Is(err, admin.ErrChanged) {
		return fmt.Errorf("compacting evidence: %w: %w", admin.ErrUnavailable, err)
	}
	return err
}

// compact compacts what has not changed. An error undoes all of it.
func compact(b *bbolt.Bucket, compaction admin.Compaction, now time.Time) error {
	if version, _, _ := decodeCompacted(b.Get(keyCompacted)); version != compaction.Version {
		return admin.ErrChanged
	}
	if err := forgetOver(b, now); err != nil {
		return err
	}
	for _, t := range compaction.Tallies {
		key := []byte(prefixTally + t.Tally)
		if stored, whole := decodeTally(key, b.Get(key), now); !whole || stored.Serial != t.Serial {
			return admin.ErrChanged
		}
		if err := b.Delete(key); err != nil {
			return err
		}
		if err := b.Put([]byte(prefixOver+t.Tally), encodeOver(now, t.Serial)); err != nil {
			return err
		}
	}
	return b.Put(keyCompacted, sealed(keyCompacted, append(encodeUint(compaction.Version+1), compaction.Compacted...)))
}

// encodeOver encodes when a tally was compacted, and at which serial.
func encodeOver(at time.Time, serial int64) []byte {
	return append(encodeUint(at.UnixNano()), encodeUint(serial)...)
}

// decodeOver decodes what encodeOver has written.
func decodeOver(b []byte) (at time.Time, serial int64) {
	if len(b) != 16 {
		return time.Unix(0, 0), authz.SerialUnknown
	}
	return time.Unix(0, decodeUint(b[:8])), decodeUint(b[8:])
}

// forgetOver removes what is known of tallies that were compacted long ago.
func forgetOver(b *bbolt.Bucket, now time.Time) error {
	var old [][]byte
	c := b.Cursor()
	for key, value := c.Seek([]byte(prefixOver)); strings.HasPrefix(string(key), prefixOver); key, value = c.Next() {
		if at, _ := decodeOver(value); now.Sub(at) >= authz.TallyKept {
			old = append(old, bytes.Clone(key))
		}
	}
	for _, key := range old {
		if err := b.Delete(key); err != nil {
			return err
		}
	}
	return nil
}

// EvidenceNames implements admin.Store.
func (s *Store) EvidenceNames(ctx context.Context, project string) (out []admin.EvidenceName, err error) {
	err = s.view(ctx, "listing evidence", func(tx *bbolt.Tx) error {
		p := openProject(tx, project)
		if p.root == nil || p.root.Bucket(bucketEvidence) == nil {
			return nil
		}
		return p.root.Bucket(bucketEvidence).ForEachBucket(func(name []byte) error {
			experiment, uid, _ := strings.Cut(string(name), " ")
			out = append(out, admin.EvidenceName{Experiment: admin.Key(experiment), UID: uid})
			return nil
		})
	})
	return out, err
}

// DropEvidence implements admin.Store.
func (s *Store) DropEvidence(ctx context.Context, name admin.EvidenceName) error {
	return s.change(ctx, "removing evidence", func(tx *bbolt.Tx) error {
		if openEvidence(tx, name) == nil {
			return nil
		}
		p := openProject(tx, name.Experiment.Project())
		return p.root.Bucket(bucketEvidence).DeleteBucket(evidenceBucket(name))
	})
}
