package evidence

import (
	"cmp"
	"slices"

	adminpb "understudy/admin/v1"
)

// quotas :: kind → how many of 200 groups are of it, if there are as many. What a kind does not
// need, the others have.
var quotas = map[kind]float64{
	adminpb.Report_NEWLY_ALLOWED: 80, adminpb.Report_NEWLY_DENIED: 60,
	adminpb.Report_RESPONSE_CHANGED: 20, adminpb.Report_FAILED: 20, adminpb.Report_LIVE_FAILED: 20,
}

// ranked is what the rank of a group depends on.
type ranked struct {
	kind    kind
	callers *callers
	count   int64
}

// rank sorts the IDs of groups: however many of the first ones are kept, they are those that a
// report needs most. Each kind has its quota. Within a kind each caller has one vote, divided
// among all groups that it is in, so that a caller that makes many groups displaces no
// other; those of a group of more than 32 callers have a vote each, and requests without a caller one in
// all. Of equal votes, more requests are first, and then compare decides.
func rank[ID any](ids []ID, of func(ID) ranked, compare func(a, b ID) int) []ID {
	type candidate struct {
		id ID
		ranked
		votes, turn float64
	}
	all, in := make([]candidate, 0, len(ids)), make(map[vote]float64)
	for _, id := range ids {
		c := candidate{id: id, ranked: of(id)}
		all = append(all, c)
		for _, hash := range c.voters() {
			in[vote{c.kind, hash}]++
		}
	}
	for i := range all {
		c := &all[i]
		for _, hash := range c.voters() {
			c.votes += 1 / in[vote{c.kind, hash}]
		}
		if c.callers.count() > maxExact {
			c.votes = float64(c.callers.count())
		}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.votes, a.votes), cmp.Compare(b.count, a.count), compare(a.id, b.id))
	})
	nth := make(map[kind]float64)
	for i := range all {
		nth[all[i].kind]++
		all[i].turn = nth[all[i].kind] / max(1, quotas[all[i].kind])
	}
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(quotas[b.kind], quotas[a.kind]), cmp.Compare(a.kind, b.kind))
	})
	out := make([]ID, len(all))
	for i, c := range all {
		out[i] = c.id
	}
	return out
}

// vote is that of a caller for groups of a kind.
type vote struct {
	kind   kind
	caller uint32
}

// nobody are the callers of a group without any.
var nobody = []uint32{0}

// voters are the hashes of the callers, as long as there are few.
func (r ranked) voters() []uint32 {
	switch n := len(r.callers.listed); {
	case r.callers.sketch == nil && n == 0:
		return nobody
	case n > maxExact:
		return nil
	}
	return r.callers.listed
}
