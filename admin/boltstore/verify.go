package boltstore

import (
	"bytes"
	"io"
)

// verification reads a whole file before bbolt does. bbolt maps the file into memory and
// trusts it: on a page that is damaged or cut off it panics, loops, or reads whatever is
// there, some of it where nothing can recover. So everything that it will follow is
// followed here first, with reads that cannot fault: the meta pages, the list of free
// pages, and each bucket's tree. What is wrong inside a value is not seen here: that is
// the failure of its record.
type verification struct {
	file io.ReaderAt
	meta meta
	// known :: page → it is free, or part of something.
	known []bool
}

// verify returns an error that wraps ErrDamaged unless all pages of the file, which has
// size bytes, are as bbolt wrote them.
func verify(file io.ReaderAt, size int64) error {
	if size == 0 {
		return damage("it is empty, and a store never is")
	}
	m, err := readMeta(file)
	if err != nil {
		return err
	}
	if pages := uint64(size / m.pageSize); m.high > pages {
		return damage("it has %d bytes and should have %d: it was cut off", size, m.high*uint64(m.pageSize))
	}
	if m.high < 4 {
		return damage("it has no pages")
	}
	v := &verification{file: file, meta: m, known: make([]bool, m.high)}
	v.known[0], v.known[1] = true, true
	if m.freelist != noFreelist {
		if err := v.freelist(); err != nil {
			return err
		}
	}
	return v.tree(m.root, nil, nil)
}

// claim notes that a page is free or part of something, which it may be once.
func (v *verification) claim(id uint64) error {
	if id < 2 || id >= v.meta.high {
		return damage("there is no page %d", id)
	}
	if v.known[id] {
		return damage("page %d is used twice", id)
	}
	v.known[id] = true
	return nil
}

// read returns a page with its overflow.
func (v *verification) read(id uint64) (page, error) {
	if err := v.claim(id); err != nil {
		return page{}, err
	}
	size, offset := v.meta.pageSize, int64(id)*v.meta.pageSize
	content := make([]byte, size)
	if _, err := v.file.ReadAt(content, offset); err != nil {
		return page{}, damage("page %d cannot be read: %v", id, err)
	}
	p := newPage(content)
	if p.id != id {
		return page{}, damage("page %d says that it is page %d", id, p.id)
	}
	if p.overflow == 0 {
		return p, nil
	}
	for i := range p.overflow {
		if err := v.claim(id + 1 + i); err != nil {
			return page{}, err
		}
	}
	more := make([]byte, int64(p.overflow)*size)
	if _, err := v.file.ReadAt(more, offset+size); err != nil {
		return page{}, damage("page %d cannot be read: %v", id, err)
	}
	return newPage(append(content, more...)), nil
}

// freelist verifies the list of free pages: bbolt will write over them.
func (v *verification) freelist() error {
	p, err := v.read(v.meta.freelist)
	if err != nil {
		return err
	}
	ids, n := p.content[pageHeader:], uint64(p.count)
	if n == 0xFFFF {
		n, ids = order.Uint64(ids), ids[8:]
	}
	if p.flags != freelistPage || n > uint64(len(ids)/8) {
		return damage("page %d is no list of free pages", p.id)
	}
	for i := range n {
		if err := v.claim(order.Uint64(ids[8*i:])); err != nil {
			return err
		}
	}
	return nil
}

// tree verifies the tree of pages from one on. Its keys are not less than from and less
// than to; nil means no bound.
func (v *verification) tree(id uint64, from, to []byte) error {
	p, err := v.read(id)
	if err != nil {
		return err
	}
	if p.flags == leafPage {
		return v.leaf(p, from, to)
	}
	if p.flags != branchPage {
		return damage("page %d is of no known kind", id)
	}
	elements, err := p.elements()
	if err != nil {
		return err
	}
	if len(elements) == 0 {
		return damage("page %d leads nowhere", id)
	}
	if err := within(p, elements, from, to); err != nil {
		return err
	}
	for i, e := range elements {
		next := to
		if i+1 < len(elements) {
			next = elements[i+1].key
		}
		if err := v.tree(e.child, e.key, next); err != nil {
			return err
		}
	}
	return nil
}

// within checks that the keys of a page are in the range that its parent gives it: a page
// of another tree, at its place, would be whole by itself.
func within(p page, elements []element, from, to []byte) error {
	if len(elements) == 0 {
		return nil
	}
	if bytes.Compare(elements[0].key, from) < 0 || to != nil && bytes.Compare(elements[len(elements)-1].key, to) >= 0 {
		return damage("the keys of page %d belong elsewhere", p.id)
	}
	return nil
}

// leaf verifies a leaf and the buckets in it.
func (v *verification) leaf(p page, from, to []byte) error {
	elements, err := p.elements()
	if err != nil {
		return err
	}
	if err := within(p, elements, from, to); err != nil {
		return err
	}
	for _, e := range elements {
		if !e.bucket {
			continue
		}
		if err := v.bucket(p, e.value); err != nil {
			return err
		}
	}
	return nil
}

// bucket verifies a bucket: its root page, or if that is 0 the page behind its header.
func (v *verification) bucket(in page, value []byte) error {
	if len(value) < bucketSize {
		return damage("a bucket in page %d is cut off", in.id)
	}
	root := order.Uint64(value)
	if root != 0 {
		return v.tree(root, nil, nil)
	}
	if len(value) < bucketSize+pageHeader {
		return damage("a bucket in page %d is cut off", in.id)
	}
	p := newPage(value[bucketSize:])
	if p.flags != leafPage {
		return damage("a bucket in page %d is of no known kind", in.id)
	}
	return v.leaf(p, nil, nil)
}
