package boltstore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
)

// The pages of a bbolt file, as bbolt writes them: in the byte order of the machine, each
// with a header of 16 bytes (id, flags, count of elements, number of overflow pages), then
// the elements, then their keys and values without a gap, then zeros. A leaf element is
// flags, position, size of the key, size of the value; a branch element is position, size
// of the key, page. A position counts from its element.
const (
	pageHeader  = 16
	elementSize = 16
	metaSize    = 64
	bucketSize  = 16

	branchPage   = 0x01
	leafPage     = 0x02
	freelistPage = 0x10

	bucketElement = 0x01

	metaMagic   = 0xED0CDAED
	metaVersion = 2
	// noFreelist is the freelist of a file whose free pages are found by a scan.
	noFreelist = ^uint64(0)
)

var order = binary.NativeEndian

// meta is what a meta page says of the file.
type meta struct {
	pageSize int64
	// root is the page of the bucket of all buckets; high is the number of pages.
	root, freelist, high, txn uint64
}

// readMeta returns the newer one of the two meta pages that are whole, as bbolt chooses.
// A machine that lost power may leave one half-written: its Txn was never acknowledged.
func readMeta(r io.ReaderAt) (meta, error) {
	first, okFirst := metaAt(r, 0)
	second, okSecond := meta{}, false
	if okFirst {
		second, okSecond = metaAt(r, first.pageSize)
	}
	for size := int64(1 << 10); !okFirst && !okSecond && size <= 1<<24; size <<= 1 {
		second, okSecond = metaAt(r, size)
	}
	switch {
	case okFirst && (!okSecond || first.txn > second.txn):
		return first, nil
	case okSecond:
		return second, nil
	default:
		return meta{}, damage("it does not begin as a store does")
	}
}

// metaAt reads a meta page and reports whether it is whole: it has its magic, its version
// and its checksum, and a size that a page can have.
func metaAt(r io.ReaderAt, offset int64) (meta, bool) {
	b := make([]byte, pageHeader+metaSize)
	if _, err := r.ReadAt(b, offset); err != nil {
		return meta{}, false
	}
	b = b[pageHeader:]
	sum := fnv.New64a()
	_, _ = sum.Write(b[:metaSize-8])
	m := meta{
		pageSize: int64(order.Uint32(b[8:])), root: order.Uint64(b[16:]),
		freelist: order.Uint64(b[32:]), high: order.Uint64(b[40:]), txn: order.Uint64(b[48:]),
	}
	whole := order.Uint32(b) == metaMagic && order.Uint32(b[4:]) == metaVersion &&
		order.Uint64(b[metaSize-8:]) == sum.Sum64() && m.pageSize >= 512
	return m, whole
}

// page is a page with its overflow, or the one of a bucket that is in its parent's value.
type page struct {
	id           uint64
	flags, count int
	overflow     uint64
	content      []byte
}

// newPage reads the header of a page. Its elements are not checked yet.
func newPage(content []byte) page {
	return page{
		id: order.Uint64(content), flags: int(order.Uint16(content[8:])), count: int(order.Uint16(content[10:])),
		overflow: uint64(order.Uint32(content[12:])), content: content,
	}
}

// element is a key with its value, or with the page of the tree that begins with it.
type element struct {
	key, value []byte
	child      uint64
	bucket     bool
}

// elements returns the elements of a leaf or a branch. All of the page is accounted for:
// keys and values follow each other without a gap, the keys ascend, and the rest is zeros.
func (p page) elements() ([]element, error) {
	out := make([]element, 0, p.count)
	next := pageHeader + p.count*elementSize
	if next > len(p.content) {
		return nil, damage("page %d is shorter than its elements", p.id)
	}
	for i := range p.count {
		at := pageHeader + i*elementSize
		e, end, err := p.element(p.content[at:at+elementSize], at, next)
		if err != nil {
			return nil, err
		}
		if len(e.key) == 0 || i > 0 && bytes.Compare(out[i-1].key, e.key) >= 0 {
			return nil, damage("the keys of page %d are not in order", p.id)
		}
		out, next = append(out, e), end
	}
	if len(bytes.TrimLeft(p.content[next:], "\x00")) > 0 {
		return nil, damage("page %d has more in it than its elements", p.id)
	}
	return out, nil
}

// element decodes the element at an offset, whose key is expected at another one. It
// returns where its value ends.
func (p page) element(b []byte, at, want int) (e element, end int, err error) {
	var position, key, value uint32
	if p.flags == leafPage {
		e.bucket = order.Uint32(b) == bucketElement
		if flags := order.Uint32(b); flags > bucketElement {
			return e, 0, damage("an element of page %d has the flags %x", p.id, flags)
		}
		position, key, value = order.Uint32(b[4:]), order.Uint32(b[8:]), order.Uint32(b[12:])
	} else {
		position, key, e.child = order.Uint32(b), order.Uint32(b[4:]), order.Uint64(b[8:])
	}
	if int64(at)+int64(position) != int64(want) || int64(want)+int64(key)+int64(value) > int64(len(p.content)) {
		return e, 0, damage("an element of page %d is not where it has to be", p.id)
	}
	end = want + int(key) + int(value)
	e.key, e.value = p.content[want:want+int(key)], p.content[want+int(key):end]
	return e, end, nil
}

// damage is an ErrDamaged that says what is wrong.
func damage(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrDamaged}, args...)...)
}
