package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"understudy/authz/logreader"
)

const (
	// batchRecords and batchBytes bound what is decided by one worker at a time. A record may
	// be larger than that.
	batchRecords = 128
	batchBytes   = 512 << 10
	// maxKeptBatch is the largest buffer that is used again.
	maxKeptBatch = 2 << 20
	// ahead is how many batches there are for each worker.
	ahead = 3
)

// batch is a part of a file. It belongs to the scanner, then to a worker, then to the counter.
type batch struct {
	file  string
	bytes []byte
	// spans are the records in it.
	spans []span
	// broken are records that cannot be read.
	broken []Broken
	judged []judgement
	other  int64
	// err ends the run after this batch.
	err error
	// ready is closed when the worker is done.
	ready chan struct{}
}

type span struct {
	number     int64
	begin, end int
}

// pipeline runs all goroutines, and returns when they have ended.
func (r *replay) pipeline(ctx context.Context) error {
	workers := max(1, r.Workers)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	work := make(chan *batch)
	inOrder := make(chan *batch, ahead*workers)
	var group sync.WaitGroup
	group.Go(func() {
		defer close(inOrder)
		defer close(work)
		r.scanFiles(ctx, work, inOrder)
	})
	for range workers {
		group.Go(func() {
			w := newWorker(r)
			for b := range work {
				w.judge(ctx, b)
				close(b.ready)
			}
		})
	}
	err := r.collect(ctx, inOrder)
	stop()
	for range inOrder { // the scanner may wait for room
	}
	group.Wait()
	return err
}

// collect counts batches in order. The context's end ends it at the first batch that is not
// decided then.
func (r *replay) collect(ctx context.Context, inOrder <-chan *batch) error {
	for b := range inOrder {
		select {
		case <-b.ready:
		case <-ctx.Done():
			return ctx.Err()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := r.count.add(ctx, b); err != nil {
			return err
		}
		batches.Put(b)
	}
	return ctx.Err()
}

// batches are used again.
var batches = sync.Pool{New: func() any { return &batch{} }}

func newBatch(file string) *batch {
	b := batches.Get().(*batch)
	bytes := b.bytes[:0]
	if cap(bytes) > maxKeptBatch {
		bytes = nil
	}
	clear(b.judged)
	*b = batch{file: file, bytes: bytes, spans: b.spans[:0], judged: b.judged[:0], ready: make(chan struct{})}
	return b
}

// scanFiles sends the records of all files.
func (r *replay) scanFiles(ctx context.Context, work chan<- *batch, inOrder chan<- *batch) {
	send := func(b *batch) bool {
		last := b.err != nil // who has taken it may make another one of it
		select {
		case inOrder <- b:
		case <-ctx.Done():
			return false
		}
		select {
		case work <- b:
			return !last
		case <-ctx.Done():
			return false
		}
	}
	for _, file := range r.Files {
		if !scanFile(file, send) {
			return
		}
	}
}

// scanFile sends the records of one file. It reports whether to go on.
func scanFile(file File, send func(*batch) bool) bool {
	failed := func(b *batch, err error) bool {
		b.err = fmt.Errorf("%s: %w", file.Name, err)
		return send(b)
	}
	b := newBatch(file.Name)
	in, err := file.Open()
	if err != nil {
		return failed(b, err)
	}
	defer func() { _ = in.Close() }()
	scanner, err := logreader.NewScanner(in)
	if err != nil {
		return failed(b, err)
	}
	for {
		record, err := scanner.Next()
		var broken *logreader.BrokenError
		switch {
		case errors.Is(err, io.EOF):
			return send(b)
		case errors.As(err, &broken):
			b.broken = append(b.broken, Broken{file.Name, broken.Number, broken.Reason})
		case err != nil:
			return failed(b, err)
		default:
			begin := len(b.bytes)
			b.bytes = append(b.bytes, record.Text...)
			b.spans = append(b.spans, span{record.Number, begin, len(b.bytes)})
		}
		if len(b.spans)+len(b.broken) >= batchRecords || len(b.bytes) >= batchBytes {
			if !send(b) {
				return false
			}
			b = newBatch(file.Name)
		}
	}
}
