package evidence

import (
	"bytes"
	"cmp"
	"slices"

	evidencepb "understudy/authz/evidence/v1"
	"understudy/rego/change"
)

const (
	// maxShown bounds a count: what is shown so often is shown.
	maxShown = 1 << 20
	// maxLists is how many lists of items there are counts of. While a new build is rolled out there
	// are two.
	maxLists = 2
)

// addItems returns the sum of what requests have shown of lists of items and of one list. Of more
// lists than there may be, those that most was shown of are kept. None of the messages is modified.
func addItems(to []*evidencepb.Items, m *evidencepb.Items) []*evidencepb.Items {
	sum := &evidencepb.Items{Digest: m.GetDigest()}
	out := []*evidencepb.Items{sum}
	for _, known := range append(slices.Clip(to), m) {
		if bytes.Equal(known.GetDigest(), m.GetDigest()) {
			sum.Shown, sum.Untrue = addShown(sum.Shown, known.GetShown()), addShown(sum.Untrue, known.GetUntrue())
		} else {
			out = append(out, known)
		}
	}
	slices.SortFunc(out, func(a, b *evidencepb.Items) int {
		return cmp.Or(cmp.Compare(shownOf(b), shownOf(a)), bytes.Compare(a.GetDigest(), b.GetDigest()))
	})
	return out[:min(maxLists, len(out))]
}

// addShown adds counts by place. Who keeps evidence bounds nothing, so counts may be hostile.
func addShown(to, more []int32) []int32 {
	more = more[:min(change.MaxItems, len(more))]
	for len(to) < len(more) {
		to = append(to, 0)
	}
	for i, n := range more {
		to[i] = min(maxShown, to[i]+min(maxShown, max(0, n)))
	}
	return to
}

func shownOf(m *evidencepb.Items) (n int64) {
	for _, one := range m.GetShown() {
		n += int64(one)
	}
	return n
}
