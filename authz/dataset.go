package authz

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	adminpb "understudy/admin/v1"
)

// DatasetName is the resource name of a dataset. Format:
// projects/{project}/locations/{location}/datasets/{dataset}.
type DatasetName string

// Dataset returns the name of the dataset with this ID in the location.
func (l Location) Dataset(id string) DatasetName { return DatasetName(string(l) + "/datasets/" + id) }

// ID returns the last segment.
func (n DatasetName) ID() string { return ResourceName(n).ID() }

// ContentChunk is the size of all chunks of a content but the last one, in bytes: what a store
// reads or writes at once, while others wait.
const ContentChunk = 1 << 20

// ContentKept is for how long a store keeps the chunks of a content that no Txn has kept, from
// the last one on, and those of a version that is not needed any more: a sidecar may still load
// them.
const ContentKept = time.Hour

// Content is the name of what a version of a dataset contains, which a store keeps in chunks
// next to its records. It is written once and never changed.
type Content struct {
	Dataset DatasetName
	// UID is that of the version.
	UID string
	// Chunks is their number, at least 1.
	Chunks int
}

// NewContent returns the name of a content of so many bytes.
func NewContent(of DatasetName, uid string, size int64) Content {
	return Content{of, uid, max(1, int((size+ContentChunk-1)/ContentChunk))}
}

// ErrNoChunk says that a store does not have a chunk, or not as it was written.
var ErrNoChunk = errors.New("a part of the content is not in the store, or damaged")

// Contents reads what versions of datasets contain. It is part of every store.
type Contents interface {
	// Chunk returns a chunk of a content, counted from 0. The error wraps ErrNoChunk if it is
	// not there; otherwise it is as those of the store's other reads.
	Chunk(ctx context.Context, of Content, index int) ([]byte, error)
}

// Hash returns the SHA-256 of a content as versions have it, in hexadecimal.
func Hash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// ReadContent returns a content, which has to have a hash. The error is that of Contents.Chunk; it
// wraps ErrNoChunk as well if the content is another one.
func ReadContent(ctx context.Context, from Contents, of Content, hash string) ([]byte, error) {
	var out []byte
	for i := range of.Chunks {
		chunk, err := from.Chunk(ctx, of, i)
		if err != nil {
			return nil, err
		}
		if out == nil {
			out = make([]byte, 0, of.Chunks*len(chunk))
		}
		out = append(out, chunk...)
	}
	if Hash(out) != hash {
		return nil, fmt.Errorf("%s has another hash than %s: %w", of.UID, hash, ErrNoChunk)
	}
	return out, nil
}

// Chunked calls put with each chunk of a content, until it fails.
func Chunked(content []byte, put func(index int, chunk []byte) error) error {
	for i := 0; i == 0 || len(content) > 0; i++ {
		n := min(len(content), ContentChunk)
		if err := put(i, content[:n]); err != nil {
			return err
		}
		content = content[n:]
	}
	return nil
}

// DatasetState is a dataset as a sidecar needs it, without its content.
type DatasetState struct {
	// Dataset is nil if there is none, or if it cannot be read: then Undecodable says why.
	Dataset     *adminpb.Dataset
	Undecodable *Undecodable
}

// DecodeDatasetState makes the state of a dataset of what a store keeps of it. One that is
// soft-deleted is none.
func DecodeDatasetState(stored StoredResource) DatasetState {
	d := &adminpb.Dataset{}
	switch bad := stored.read(d); {
	case bad != nil && stored.Expires:
		return DatasetState{}
	case bad != nil:
		return DatasetState{Undecodable: bad}
	case d.DeleteTime != nil:
		return DatasetState{}
	}
	return DatasetState{Dataset: d}
}

// ContentOf returns the name of the content of a dataset's current version. ok is false if it has
// none yet.
func ContentOf(d *adminpb.Dataset) (_ Content, ok bool) {
	return NewContent(DatasetName(d.GetName()), d.GetVersionUid(), d.GetSizeBytes()), d.GetVersionUid() != ""
}
