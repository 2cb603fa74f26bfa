package admin

import (
	"context"
	"errors"
	"sync"
	"time"

	"understudy/rego/change"
)

// pair names the contents of two versions by their etags, of which the second is compared with the first; effective says
// that only what has an effect counts.
type pair struct {
	from, to  string
	effective bool
}

// itemList is in what a pair differs. Its list is nil if that could not be found out when it was made.
type itemList struct {
	list *change.List
	made time.Time
}

// unknownPeriod is for how long a pair is not compared again that could not be: the machine may have
// been short of memory, and another version of a server may compare more.
const unknownPeriod = 10 * time.Minute

// maxItemLists bounds what is kept of pairs, in bytes of their texts.
const maxItemLists = 16 << 20

// itemLists keeps in what pairs differ: a report is asked for hundreds of times a second, and both
// contents are parsed for that. It is safe for concurrent use.
type itemLists struct {
	mu    sync.Mutex
	known map[pair]*itemList
	size  int
}

func newItemLists() *itemLists { return &itemLists{known: make(map[pair]*itemList)} }

// find returns in what a pair differs; nil if that is not kept.
func (c *itemLists) find(of pair) *itemList {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.known[of]
	if d != nil && d.list == nil && time.Since(d.made) > unknownPeriod {
		return nil
	}
	return d
}

// note begins anew when there is too much: what is in use is soon known again.
func (c *itemLists) note(of pair, d *itemList) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.known[of]; known != nil {
		c.size -= sizeOf(of, known)
	}
	size := sizeOf(of, d)
	if c.size+size > maxItemLists {
		clear(c.known)
		c.size = 0
	}
	c.known[of] = d
	c.size += size
}

// sizeOf is about what a pair takes that is kept.
func sizeOf(of pair, d *itemList) int {
	const perPair, perItem = 256, 192
	size := perPair + len(of.from) + len(of.to)
	if d.list == nil {
		return size
	}
	for _, i := range d.list.Items {
		size += perItem + len(i.ID) + len(i.File) + len(i.Rule) + len(i.Path) + len(i.Table) + len(i.Live) + len(i.Candidate)
	}
	return size
}

// pair is that of an experiment and its policy, both of which can be read.
func (e storedExperiment) pair() pair { return pair{from: e.parent.Policy.Etag, to: e.experiment.Etag} }

// itemsOf returns in what an experiment differs from its policy, both of which can be read and were
// read with their contents, unless it has that already; nil if it cannot be found out. The error is
// that of ctx, or wraps ErrNoCompiler: then it may be found out later.
func (s *Server) itemsOf(ctx context.Context, of storedExperiment) (*change.List, error) {
	if of.items != nil {
		return of.items.list, nil
	}
	return s.compared(ctx, of.name, versionPair{of.pair(), of.parent.Policy, of.experiment.Policy})
}

// compared returns in what two versions differ, for an experiment; nil if it cannot be found out. The error is as that
// of itemsOf.
func (s *Server) compared(ctx context.Context, experiment Key, p versionPair) (*change.List, error) {
	d := s.itemLists.find(p.pair)
	if d != nil {
		return d.list, nil
	}
	err := s.compilers.run(ctx, func() error {
		if d = s.itemLists.find(p.pair); d != nil {
			return nil // anyone who waited for a turn waited for this
		}
		list, err := s.compilers.compiler.Items(ctx, p.from, p.to, p.pair.effective)
		if passes(ctx, err) {
			return err
		}
		if err != nil {
			s.log.WarnContext(ctx, "it cannot be found out in what two versions of a policy differ", "experiment", string(experiment), "error", err)
			list = nil
		}
		d = &itemList{list, time.Now()}
		s.itemLists.note(p.pair, d)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return d.list, nil
}

// passes reports whether an error may be none at the next attempt.
func passes(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || errors.Is(err, ErrNoCompiler))
}
