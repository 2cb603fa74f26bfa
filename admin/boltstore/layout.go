package boltstore

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"understudy/admin"
	"understudy/authz"
)

// The layout of the file. Each project is a bucket of its own:
//
//	projects/<project>/
//	    sequence                 8 bytes, big endian: the last sequence number
//	    records/<resource name>  record, see encodeRecord
//	    changes/<location>/<sequence, 8 bytes big endian>
//	                             change as JSON
//	    nodes/<node name>        node report, see encodeNode
//	    done/<txn id>            8 bytes: the sequence of a Txn that was made
//	    expiries/<time><resource name>
//	    doneTimes/<time><txn id> when a record expires, and when a Txn was made, to
//	                             find those to remove; the values are empty
//
// Times are Unix milliseconds, 8 bytes big endian, so that the oldest come first.
// A location's head is the last entry of its changes; at least that entry is kept
// for ever, so that a trimmed stream is told from an empty one.
var (
	bucketRecords   = []byte("records")
	bucketExpiries  = []byte("expiries")
	bucketChanges   = []byte("changes")
	bucketNodes     = []byte("nodes")
	bucketDone      = []byte("done")
	bucketDoneTimes = []byte("doneTimes")
	keySequence     = []byte("sequence")
)

// change is an entry of a location's stream.
type change struct {
	Nonce string
	// Previous is the cursor of the change before this one.
	Previous authz.Cursor
	Policies []authz.PolicyName
}

func encodeChange(c change) ([]byte, error) { return json.Marshal(c) }

// unknownCursor is that of no change.
var unknownCursor = authz.Cursor{Sequence: -1}

// decodeChange decodes a change. One that is damaged follows no other, so that who comes
// to it loads everything.
func decodeChange(b []byte) change {
	var c change
	if err := json.Unmarshal(b, &c); err != nil {
		return change{Previous: unknownCursor}
	}
	return c
}

func encodeUint(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

func decodeUint(b []byte) int64 {
	if len(b) != 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

// encodeRecord writes sequence, expiry in Unix milliseconds (0 for never), the
// length of the etag, the etag and the value.
func encodeRecord(r admin.Record) []byte {
	b := make([]byte, 0, 20+len(r.Etag)+len(r.Value))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Sequence))
	b = binary.BigEndian.AppendUint64(b, uint64(expiry(r.ExpireTime)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.Etag)))
	b = append(b, r.Etag...)
	return append(b, r.Value...)
}

// timed is the key of an entry that is found by its time.
func timed(ms int64, name []byte) []byte { return append(encodeUint(ms), name...) }

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

// errDamaged says that a record is shorter than it says of itself.
var errDamaged = errors.New("its entry in the file is damaged")

// decodeRecord copies what it returns: bbolt's memory ends with the transaction.
func decodeRecord(key, b []byte) admin.Record {
	if len(b) < 20 || len(b) < 20+int(binary.BigEndian.Uint32(b[16:])) {
		return admin.Record{Key: admin.Key(key), Damage: errDamaged}
	}
	etag := int(binary.BigEndian.Uint32(b[16:]))
	r := admin.Record{
		Key:      admin.Key(key),
		Sequence: int64(binary.BigEndian.Uint64(b)),
		Etag:     string(b[20 : 20+etag]),
		Value:    append([]byte{}, b[20+etag:]...),
	}
	if ms := int64(binary.BigEndian.Uint64(b[8:])); ms != 0 {
		r.ExpireTime = time.UnixMilli(ms)
	}
	return r
}

func expired(r admin.Record, now time.Time) bool {
	return !r.ExpireTime.IsZero() && !now.Before(r.ExpireTime)
}
