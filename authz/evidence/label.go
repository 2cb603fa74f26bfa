package evidence

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	evidencepb "understudy/authz/evidence/v1"
)

const (
	// maxLabelNames is how many names of labels are counted of a policy.
	maxLabelNames = 8
	// maxValues is how many values of a label and kind are counted, and maxSummed how many are
	// kept of a sum.
	maxValues = 32
	maxSummed = 32
)

// labelID is a label among the requests of a kind of difference.
type labelID struct {
	name string
	kind int32
}

// frequency is how often a value was counted: at least count times, and at most missed more.
type frequency struct{ count, missed int64 }

func (f frequency) most() int64 { return f.count + f.missed }

// label counts the values of a label. Beyond maxValues a value takes the place of the rarest one
// once a sketch says that it is there more often: a caller that always sends another value displaces
// none.
type label struct {
	total  int64
	values map[string]frequency
	// unnamed counts the values without a place; nil as long as there is room.
	unnamed *sketch
}

func newLabel() *label { return &label{values: make(map[string]frequency)} }

// add counts a value.
func (l *label) add(value string) {
	l.total++
	if f, ok := l.values[value]; ok {
		f.count++
		l.values[value] = f
		return
	}
	if len(l.values) < maxValues {
		l.values[strings.Clone(value)] = frequency{count: 1}
		return
	}
	l.contest(value)
}

// contest counts a value that has no place, and gives it that of the rarest one if it is there
// more often.
func (l *label) contest(value string) {
	if l.unnamed == nil {
		l.unnamed = newSketch(labelColumns)
	}
	asked := int64(l.unnamed.add(0, value, 1))
	rarest, least := l.rarest()
	if asked <= least.most() {
		return
	}
	delete(l.values, rarest)
	l.unnamed.add(0, rarest, uint32(min(least.most(), math.MaxUint32/2))) // bounded
	l.values[strings.Clone(value)] = frequency{1, asked - 1}
}

// rarest returns the value that was counted least.
func (l *label) rarest() (value string, least frequency) {
	least.count = math.MaxInt64
	for v, f := range l.values {
		if c := cmp.Compare(f.most(), least.most()); c < 0 || c == 0 && v < value {
			value, least = v, f
		}
	}
	return value, least
}

// unseen is how often a value that is not among the counted ones may have been there.
func (l *label) unseen() int64 {
	rest, least := l.total, int64(math.MaxInt64)
	for _, f := range l.values {
		rest -= f.count
		least = min(least, f.most())
	}
	return min(rest, least)
}

// merge adds the counts of another one.
func (l *label) merge(other *label) {
	here, there := l.unseen(), other.unseen()
	for v, f := range l.values {
		if _, both := other.values[v]; !both {
			f.missed += there
			l.values[v] = f
		}
	}
	for v, o := range other.values {
		f, both := l.values[v]
		if !both {
			f.missed = here
		}
		l.values[v] = frequency{f.count + o.count, f.missed + o.missed}
	}
	l.total += other.total
}

// labelValue is a value with how often it was counted.
type labelValue struct {
	value string
	frequency
}

// sorted returns the values, the most frequent first.
func (l *label) sorted() []labelValue {
	out := make([]labelValue, 0, len(l.values))
	for v, f := range l.values {
		out = append(out, labelValue{v, f})
	}
	slices.SortFunc(out, func(a, b labelValue) int {
		return cmp.Or(cmp.Compare(b.most(), a.most()), cmp.Compare(a.value, b.value))
	})
	return out
}

// bound keeps the most frequent values.
func (l *label) bound(n int) {
	if len(l.values) <= n {
		return
	}
	for _, v := range l.sorted()[n:] {
		delete(l.values, v.value)
	}
}

func labelOf(m *evidencepb.Label) *label {
	l := &label{total: m.GetTotal(), values: make(map[string]frequency, len(m.GetValues()))}
	for _, v := range m.GetValues() {
		l.values[v.GetValue()] = frequency{v.GetCount(), v.GetError()}
	}
	return l
}

func (l *label) message(id labelID) *evidencepb.Label {
	m := &evidencepb.Label{Label: id.name, Kind: id.kind, Total: l.total}
	for _, v := range l.sorted() {
		m.Values = append(m.Values, &evidencepb.Label_Value{Value: v.value, Count: v.count, Error: v.missed})
	}
	return m
}

// boundLabels keeps the labels of the names that most requests have.
func boundLabels(labels map[labelID]*label) {
	totals := make(map[string]int64)
	for id, l := range labels {
		totals[id.name] += l.total
		l.bound(maxSummed)
	}
	if len(totals) <= maxLabelNames {
		return
	}
	names := slices.SortedFunc(maps.Keys(totals), func(a, b string) int {
		return cmp.Or(cmp.Compare(totals[b], totals[a]), cmp.Compare(a, b))
	})
	for id := range labels {
		if slices.Index(names, id.name) >= maxLabelNames {
			delete(labels, id)
		}
	}
}
