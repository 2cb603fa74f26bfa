package boltstore

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"understudy/admin"
	"understudy/authz"
)

// The layout of the file. Each project is a bucket of its own:
//
//	projects/<project>/
//	    sequence                 8 bytes, big endian: the last sequence number
//	    watermark                8 bytes: the number of the last Txn that raised it; files of
//	                             earlier versions have none
//	    format                   1: all records have checksums; earlier versions have none
//	    records/<resource name>  record, see encodeRecord
//	    changes/<location>/<sequence, 8 bytes big endian>
//	                             change, see encodeChange
//	    nodes/<node name>        node report, see encodeNode
//	    done/<txn id>            8 bytes: the sequence of a Txn that was made
//	    expiries/<time><resource name>
//	    doneTimes/<time><txn id> when a record expires, and when a Txn was made, to
//	                             find those to remove; the values are empty
//	    evidence/<experiment> <uid>/
//	                             what was published of an experiment, see evidence.go; files
//	                             of earlier versions have no such bucket
//	contents/<dataset> <uid>/    what a version of a dataset contains, see content.go
//
// Times are Unix milliseconds, 8 bytes big endian, so that the oldest come first.
// A location's head is the last entry of its changes; at least that entry is kept
// for ever, so that a trimmed stream differs from an empty one.
var (
	bucketRecords   = []byte("records")
	bucketExpiries  = []byte("expiries")
	bucketChanges   = []byte("changes")
	bucketNodes     = []byte("nodes")
	bucketDone      = []byte("done")
	bucketDoneTimes = []byte("doneTimes")
	bucketEvidence  = []byte("evidence")
	keySequence     = []byte("sequence")
	keyWatermark    = []byte("watermark")
	keyFormat       = []byte("format")
	formatSummed    = []byte{1}
)

// change is an entry of a location's stream.
type change struct {
	Nonce string
	// Previous is the cursor of the change before this one.
	Previous authz.Cursor
	Policies []authz.PolicyName
	Datasets []authz.DatasetName `json:",omitempty"`
}

// changeSum marks a change that has its checksum before it.
const changeSum = 0x01

// encodeChange writes changeSum, the CRC-32C of the JSON, and the JSON.
func encodeChange(c change) ([]byte, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint32([]byte{changeSum}, checksum(text)), text...), nil
}

// unknownCursor is that of no change.
var unknownCursor = authz.Cursor{Sequence: -1}

// decodeChange decodes a change. One that is damaged follows no other, so that who comes
// to it loads everything. Those of earlier versions are JSON alone.
func decodeChange(b []byte) change {
	if len(b) >= 5 && b[0] == changeSum && binary.BigEndian.Uint32(b[1:]) == checksum(b[5:]) {
		b = b[5:]
	}
	var c change
	if err := json.Unmarshal(b, &c); err != nil {
		return change{Previous: unknownCursor}
	}
	return c
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns the CRC-32C of parts: nothing else in the file shows that a value was
// damaged, which might still decode as a policy.
func checksum(parts ...[]byte) (sum uint32) {
	for _, p := range parts {
		sum = crc32.Update(sum, castagnoli, p)
	}
	return sum
}

// encodeUint is big endian, so that the order of bytes is the order of numbers: what is
// oldest is first in its bucket.
func encodeUint(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// decodeUint is the number that encodeUint has written; 0 of what is damaged.
func decodeUint(b []byte) int64 {
	if len(b) != 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

const (
	// recordHeader is the size of what is before the checksum of a record.
	recordHeader = 20
	// recordSum, in the length of the etag, marks a record that has a checksum, and
	// recordSummary one that has a summary.
	recordSum     = 1 << 31
	recordSummary = 1 << 30
)

// entry is a record as the file has it. Its slices are bbolt's, which end with the
// transaction.
type entry struct {
	admin.Record
	// summary is empty if it is the value.
	summary []byte
}

// record copies what Get and List return.
func (e entry) record() admin.Record {
	if e.Damage == nil && e.Key != "" {
		e.Value = append([]byte{}, e.Value...)
	}
	return e.Record
}

// short copies what Summaries return.
func (e entry) short() admin.Summary {
	if len(e.summary) > 0 {
		e.Value = e.summary
	}
	return admin.Summary(e.record())
}

// encodeRecord writes sequence, expiry in Unix milliseconds (0 for never), the length of
// the etag with recordSum, the CRC-32C of the key and all else, the etag, the length of the
// summary and the summary if there is one (recordSummary), and the value.
func encodeRecord(e entry) []byte {
	etag, summary := uint32(len(e.Etag))|recordSum, []byte(nil)
	if len(e.summary) > 0 {
		etag |= recordSummary
		summary = append(binary.BigEndian.AppendUint32(nil, uint32(len(e.summary))), e.summary...)
	}
	b := make([]byte, 0, recordHeader+4+len(e.Etag)+len(summary)+len(e.Value))
	b = binary.BigEndian.AppendUint64(b, uint64(e.Sequence))
	b = binary.BigEndian.AppendUint64(b, uint64(expiry(e.ExpireTime)))
	b = binary.BigEndian.AppendUint32(b, etag)
	b = binary.BigEndian.AppendUint32(b, checksum([]byte(e.Key), b, []byte(e.Etag), summary, e.Value))
	b = append(b, e.Etag...)
	b = append(b, summary...)
	return append(b, e.Value...)
}

// timed is the key of an entry that is found by its time.
func timed(ms int64, name []byte) []byte { return append(encodeUint(ms), name...) }

// expiry is a time as it is stored; 0 is never.
func expiry(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// expiryOf returns the expiry of a record as encodeRecord writes it.
func expiryOf(b []byte) int64 {
	if len(b) < 16 {
		return 0
	}
	return decodeUint(b[8:16])
}

// errDamaged says that a record is not as it was written.
var errDamaged = errors.New("its entry in the file is damaged")

// decodeRecord copies no value. In the projects of earlier versions, records may have no
// checksum.
func decodeRecord(key, b []byte, unsummed bool) entry {
	damaged := entry{Record: admin.Record{Key: admin.Key(key), Damage: errDamaged}}
	if len(b) < recordHeader {
		return damaged
	}
	header, rest := b[:recordHeader], b[recordHeader:]
	etag := binary.BigEndian.Uint32(header[16:])
	if summed := etag&recordSum != 0; summed || !unsummed {
		etag &^= recordSum
		if !summed || len(rest) < 4 || binary.BigEndian.Uint32(rest) != checksum(key, header, rest[4:]) {
			return damaged
		}
		rest = rest[4:]
	}
	summarised := etag&recordSummary != 0
	etag &^= recordSummary
	if uint64(len(rest)) < uint64(etag) {
		return damaged
	}
	e := entry{Record: admin.Record{
		Key:      admin.Key(key),
		Sequence: int64(binary.BigEndian.Uint64(header)),
		Etag:     string(rest[:etag]),
		Value:    rest[etag:],
	}}
	if ms := int64(binary.BigEndian.Uint64(header[8:])); ms != 0 {
		e.ExpireTime = time.UnixMilli(ms)
	}
	if !summarised {
		return e
	}
	var ok bool
	if e.summary, e.Value, ok = cutSummary(e.Value); !ok {
		return damaged
	}
	return e
}

// cutSummary returns a summary, behind its length, and what follows it.
func cutSummary(b []byte) (summary, rest []byte, ok bool) {
	if len(b) < 4 || uint64(len(b)-4) < uint64(binary.BigEndian.Uint32(b)) {
		return nil, nil, false
	}
	end := 4 + int(binary.BigEndian.Uint32(b))
	return b[4:end:end], b[end:], true
}

// expired reports whether a record has ceased to exist. It is asked on every read, for
// records are removed from the file only by later writes.
func expired(r entry, now time.Time) bool {
	return !r.ExpireTime.IsZero() && !now.Before(r.ExpireTime)
}

// checkLayout returns an error that wraps ErrDamaged unless all buckets of the file are
// those of a store: one that has lost its name would be an empty project.
func checkLayout(tx *bbolt.Tx) error {
	return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
		id, ok := strings.CutPrefix(string(name), "projects/")
		if !ok {
			return damage("it has a bucket that is not a project's: it may be the file of another program")
		}
		for _, part := range [][]byte{
			bucketRecords, bucketExpiries, bucketChanges, bucketNodes, bucketDone, bucketDoneTimes,
		} {
			if b.Bucket(part) == nil {
				return damage("the project %s has no %s", id, part)
			}
		}
		prefix := []byte("projects/" + id + "/")
		c := b.Bucket(bucketRecords).Cursor()
		first, _ := c.First()
		last, _ := c.Last()
		if first != nil && (!bytes.HasPrefix(first, prefix) || !bytes.HasPrefix(last, prefix)) {
			return damage("the project %s has records of another one", id)
		}
		return nil
	})
}
