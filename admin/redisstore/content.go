package redisstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strconv"
	"time"

	"understudy/admin"
	"understudy/authz"
)

// The chunks of a content are in a key of their own, below feed/: sidecars read them. A content
// never passes through one function, and is not in the way of other calls for longer than a chunk.

var chunkFunction = function{name: "chunk"}

// PutChunk implements admin.Store.
func (s *Store) PutChunk(ctx context.Context, of authz.Content, index int, chunk []byte) error {
	expiry := s.now().Add(authz.ContentKept)
	return call(ctx, "storing a chunk", func(ctx context.Context) error {
		return s.run(ctx, s.bulk, chunkFunction, []string{contentKey(of)},
			index, sealed(chunk), expiry.UnixMilli(), authz.ContentKept.Milliseconds()).Err()
	})
}

// Chunk implements authz.Contents.
func (s *Store) Chunk(ctx context.Context, of authz.Content, index int) ([]byte, error) {
	var fields []any
	err := call(ctx, "reading a chunk", func(ctx context.Context) (err error) {
		fields, err = s.bulk.HMGet(ctx, contentKey(of), strconv.Itoa(index), "expiry").Result()
		return err
	})
	if err != nil {
		return nil, err
	}
	if stored, there := fields[0].(string); there && !expired(fields[1], s.now()) {
		if chunk, whole := unsealed([]byte(stored)); whole {
			return chunk, nil
		}
	}
	return nil, fmt.Errorf("chunk %d of %s: %w", index, of.UID, authz.ErrNoChunk)
}

// expired reports whether an expiry, which is not there if it is never, is over.
func expired(expiry any, now time.Time) bool {
	text, there := expiry.(string)
	if !there {
		return false
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	return err != nil || ms <= now.UnixMilli()
}

func contentKey(of authz.Content) string { return keysOf(string(of.Dataset)).content(of.UID) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealed puts the CRC-32C of a chunk before it.
func sealed(chunk []byte) []byte {
	out := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(chunk)), crc32.Checksum(chunk, castagnoli))
	return append(out, chunk...)
}

// unsealed returns the chunk without its checksum; it reports false if it is damaged.
func unsealed(b []byte) (chunk []byte, whole bool) {
	if len(b) < 4 || binary.BigEndian.Uint32(b) != crc32.Checksum(b[4:], castagnoli) {
		return nil, false
	}
	return b[4:], true
}

// subject returns the number of a content in a Txn.
func (c *contents) subject(of authz.Content) int {
	key := contentKey(of)
	for i, known := range c.keys {
		if known == key {
			return i + 1
		}
	}
	c.keys = append(c.keys, key)
	return len(c.keys)
}

// contents are those of a Txn, in the order in which it names them first.
type contents struct{ keys []string }

// encodeComplete and encodeKeep write what is about a content as the arguments that commit.lua
// describes.
func (c *contents) encodeComplete(w admin.Complete) []any {
	return []any{"complete", c.subject(w.Content), w.Content.Chunks}
}

func (c *contents) encodeKeep(w admin.ExpireContent) []any {
	return []any{"keep", c.subject(w.Content), encodeExpiry(w.ExpireTime)}
}
