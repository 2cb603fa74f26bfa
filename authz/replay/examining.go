package replay

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"
	"sync/atomic"

	"understudy/authz"
	evidencepb "understudy/authz/evidence/v1"
	"understudy/rego/change"
)

// itemExaminer finds out what the entries show of the items in which the policies differ. Of the requests of one pair
// of leaves, of which both policies learn the same, one is examined, as long as some item was not shown often
// enough. It is safe for concurrent use.
type itemExaminer struct {
	// list is nil if the items are not known.
	list *change.List
	// over says that there is nothing more to learn, and allSeen that requests have shown all items.
	over, allSeen atomic.Bool
	// repeated counts the requests of known leaves that both policies decide alike.
	repeated atomic.Int64

	mu     sync.Mutex
	counts *change.Counts
	// leaves are those of the requests that were examined.
	leaves map[leaves]struct{}
}

// leaves are what both policies have learned of a request.
type leaves struct{ live, candidate authz.Leaf }

// maxExamined is how many leaves are known; after more of them some are examined again.
const maxExamined = 1 << 16

func newExamining(list *change.List) *itemExaminer {
	x := &itemExaminer{list: list, leaves: make(map[leaves]struct{})}
	if list != nil {
		x.counts = change.NewCounts(list.Conditions())
	}
	x.over.Store(list == nil || x.counts.Done())
	return x
}

// examine has both sides evaluate a request that they have decided, if that may show anything new.
func (w *worker) examine(ctx context.Context, j *judgement) {
	x := w.items
	if x.over.Load() || w.live.compiled.Exempts(j.request) || w.candidate.compiled.Exempts(j.request) {
		return
	}
	of, known := w.leavesOf(j)
	distinct := known && x.take(of)
	if !distinct && !x.repeats(j, known) || !w.prepared(ctx) {
		return
	}
	if shown, err := w.examiner.Examine(ctx, nil, j.request, x.pending(distinct)); err == nil {
		x.add(shown, distinct)
	}
}

// leavesOf returns the leaves of a request. It reports false if one is not known: then the request cannot be distinguished from
// others.
func (r *replay) leavesOf(j *judgement) (leaves, bool) {
	of, none := leaves{j.live.Leaf(), j.candidate.Leaf()}, authz.Leaf{}
	return of, (of.live != none || r.live.compiled.NoOp()) && (of.candidate != none || r.candidate.compiled.NoOp())
}

// prepared reports whether the worker can examine requests.
func (w *worker) prepared(ctx context.Context) bool {
	if w.examiner == nil {
		if made, err := authz.NewJudge(ctx, w.Live, w.Candidate, w.live.compiled, w.candidate.compiled); err == nil {
			w.examiner = made
		}
	}
	return w.examiner != nil
}

// take reports whether no request of a pair of leaves has been examined, and notes that one is.
func (x *itemExaminer) take(of leaves) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, known := x.leaves[of]; known {
		return false
	}
	if len(x.leaves) >= maxExamined {
		clear(x.leaves)
	}
	x.leaves[of] = struct{}{}
	return true
}

// The same leaves do not say which row of data decided, nor what a policy would ask without an item. So the first requests
// of known leaves are examined too, as many as firstRepeated, and one of repeatedOneIn others, if both policies decide
// them alike.
const (
	firstRepeated = 512
	repeatedOneIn = 16
)

// repeats reports whether a request is examined that may be a repeated one, as long as there is an item that no request
// has shown: each of which no leaves are known or that the policies decide differently, the first others, and one of
// several more, chosen by what is recorded of it.
func (x *itemExaminer) repeats(j *judgement, known bool) bool {
	if x.allSeen.Load() {
		return false
	}
	if !known || j.difference != authz.Unchanged || x.repeated.Add(1) <= firstRepeated {
		return true
	}
	chance := fnv.New32a()
	fmt.Fprint(chance, j.request.ID, j.request.Time.UnixNano())
	return chance.Sum32()%repeatedOneIn == 0
}

// pending says of which items a request may show more, as of now; one that may be a repeated one only of those that
// none has shown.
func (x *itemExaminer) pending(distinct bool) func(int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	pending := make([]bool, len(x.list.Items))
	for i := range pending {
		pending[i] = x.counts.Pending(i) && (distinct || !x.counts.Seen(i))
	}
	return func(item int) bool { return pending[item] }
}

func (x *itemExaminer) add(shown map[int]change.Shown, distinct bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for item, what := range shown {
		if distinct {
			x.counts.Add(item, what)
		} else {
			x.counts.AddRepeated(item, what)
		}
	}
	x.allSeen.Store(x.counts.AllSeen())
	x.over.Store(x.counts.Done())
}

// message returns the counts as evidence has them; nil if the items are not known.
func (x *itemExaminer) message() *evidencepb.Items {
	if x.list == nil {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	shown, untrue := x.counts.Numbers()
	return &evidencepb.Items{Digest: x.list.Digest, Shown: shown, Untrue: untrue}
}
