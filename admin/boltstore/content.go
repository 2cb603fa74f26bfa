package boltstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"understudy/admin"
	"understudy/authz"
)

// The contents of datasets are next to the records, in the bucket contents of their project, which
// is made with the first one:
//
//	contents/<dataset> <uid>/
//	    expiry                   8 bytes: when the chunks go, in Unix milliseconds; 0 for never
//	    <number, 4 bytes big endian>
//	                             a chunk, see sealed
//
// Each chunk is written by a transaction of its own, so that a commit waits for one at most.
var (
	bucketContents = []byte("contents")
	keyExpiry      = []byte("expiry")
)

// sweepInterval is how often what has expired is looked for.
const sweepInterval = time.Hour

// PutChunk implements admin.Store.
func (s *Store) PutChunk(ctx context.Context, of authz.Content, index int, chunk []byte) error {
	expiry := s.now().Add(authz.ContentKept)
	return s.change(ctx, "storing a chunk", func(tx *bbolt.Tx) error {
		p, err := makeProject(tx, authz.ResourceName(of.Dataset).Project())
		if err != nil {
			return err
		}
		contents, err := p.root.CreateBucketIfNotExists(bucketContents)
		if err != nil {
			return err
		}
		content, err := contents.CreateBucketIfNotExists(contentKey(of))
		if err != nil {
			return err
		}
		if kept := content.Get(keyExpiry); kept != nil && decodeUint(kept) == 0 {
			return nil // a Txn has kept it: this is a repetition
		}
		if err := content.Put(keyExpiry, encodeUint(expiry.UnixMilli())); err != nil {
			return err
		}
		key := chunkKey(index)
		return content.Put(key, sealed(key, chunk))
	})
}

// Chunk implements authz.Contents.
func (s *Store) Chunk(ctx context.Context, of authz.Content, index int) (chunk []byte, err error) {
	now := s.now()
	err = s.view(ctx, "reading a chunk", func(tx *bbolt.Tx) error {
		content := openProject(tx, authz.ResourceName(of.Dataset).Project()).content(of, now)
		if content == nil {
			return nil
		}
		key := chunkKey(index)
		if value, whole := unsealed(key, content.Get(key)); whole {
			chunk = append([]byte{}, value...)
		}
		return nil
	})
	if err == nil && chunk == nil {
		err = fmt.Errorf("chunk %d of %s: %w", index, of.UID, authz.ErrNoChunk)
	}
	return chunk, err
}

func contentKey(of authz.Content) []byte { return []byte(string(of.Dataset) + " " + of.UID) }

func chunkKey(index int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(index)) }

// content returns the bucket of a content; nil if it is not there, or has expired.
func (p *project) content(of authz.Content, now time.Time) *bbolt.Bucket {
	if p.root == nil || p.root.Bucket(bucketContents) == nil {
		return nil
	}
	content := p.root.Bucket(bucketContents).Bucket(contentKey(of))
	if content == nil || contentExpired(content, now) {
		return nil
	}
	return content
}

// contentExpired reports whether the chunks of a bucket are gone. One that has lost its expiry is
// kept: it is not known whether it is needed.
func contentExpired(content *bbolt.Bucket, now time.Time) bool {
	ms := decodeUint(content.Get(keyExpiry))
	return ms != 0 && ms <= now.UnixMilli()
}

// complete reports whether all chunks of a content are there.
func (p *project) complete(of authz.Content, now time.Time) bool {
	content := p.content(of, now)
	if content == nil {
		return false
	}
	for i := range of.Chunks {
		if content.Get(chunkKey(i)) == nil {
			return false
		}
	}
	return true
}

// expireContent makes a write. What has expired stays so.
func (p *project) expireContent(w admin.ExpireContent, now time.Time) error {
	content := p.content(w.Content, now)
	if content == nil {
		return nil
	}
	return content.Put(keyExpiry, encodeUint(expiry(w.ExpireTime)))
}

// sweep removes all contents that expired, each by a transaction of its own.
func (s *Store) sweep() error {
	now := s.now()
	var gone [][2]string
	err := s.view(context.Background(), "looking for what expired", func(tx *bbolt.Tx) error {
		return tx.ForEach(func(project []byte, root *bbolt.Bucket) error {
			contents := root.Bucket(bucketContents)
			if contents == nil {
				return nil
			}
			return contents.ForEachBucket(func(name []byte) error {
				if contentExpired(contents.Bucket(name), now) {
					gone = append(gone, [2]string{string(project), string(name)})
				}
				return nil
			})
		})
	})
	for _, g := range gone {
		if err == nil {
			err = s.update(func(tx *bbolt.Tx) error {
				return tx.Bucket([]byte(g[0])).Bucket(bucketContents).DeleteBucket([]byte(g[1]))
			})
		}
	}
	return err
}

// sweepNowAndThen removes what expired, until the store is closed.
func (s *Store) sweepNowAndThen() {
	defer close(s.swept)
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		// What is wrong with the file is the error of the next call.
		_ = s.sweep()
		select {
		case <-s.closing:
			return
		case <-ticker.C:
		}
	}
}
