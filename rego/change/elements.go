package change

import (
	"slices"

	"google.golang.org/protobuf/types/known/structpb"
)

// elements returns where two arrays differ: in their order, in rows that both have in part, in what only one of them
// has.
func elements(at spot, live, candidate []*structpb.Value) (out []dataItem) {
	common, removed := kept(live, candidate)
	commonToo, added := kept(candidate, live)
	if !slices.Equal(common, commonToo) {
		return []dataItem{{spot: at, name: at.ref, live: listOf(live), candidate: listOf(candidate)}}
	}
	children := len(removed) + len(added)
	out, removed, added = rows(at, live, candidate, removed, added)
	if len(removed)+len(added) == 0 {
		return tabled(out, at, children)
	}
	var g *group
	if len(removed) > 0 && len(added) > 0 {
		g = &group{}
	}
	first := len(out)
	out = append(out, dataItem{spot: at, array: true, live: listOf(live), candidate: listOf(candidate), group: g})
	for _, i := range removed {
		out = append(out, alone(dataItem{spot: at.element(i, i), name: at.ref, element: true, live: live[i]})...)
	}
	for _, i := range added {
		out = append(out, alone(dataItem{spot: at.element(i, i), name: at.ref, element: true, candidate: candidate[i]})...)
	}
	for i := range out[first:] {
		out[first+i].group = g
	}
	return tabled(out, at, children)
}

// kept returns what of an array another one has, in order, and the places of what it has not. Of equal ones each
// counts.
func kept(of, others []*structpb.Value) (common []string, only []int) {
	left := make(map[string]int, len(others))
	for _, v := range others {
		left[identity(v)]++
	}
	for i, v := range of {
		if key := identity(v); left[key] > 0 {
			left[key]--
			common = append(common, key)
		} else {
			only = append(only, i)
		}
	}
	return common, only
}

// maxRows bounds how many rows are looked at for the counterpart of one.
const maxRows = 16

// rows returns where rows differ that are each other's counterparts, and which elements are left. A single element
// came in place of a single one; else counterparts have a part in common.
func rows(at spot, live, candidate []*structpb.Value, removed, added []int) (out []dataItem, _, _ []int) {
	if len(removed) == 1 && len(added) == 1 {
		i, j := removed[0], added[0]
		return placed(values(at.element(i, j), live[i], candidate[j]), at), nil, nil
	}
	having := make(map[string][]int)
	for _, i := range removed {
		for _, key := range partKeys(live[i]) {
			having[key] = append(having[key], i)
		}
	}
	left := slices.Clone(added)
	for _, j := range added {
		i, ok := mostAlike(having, partKeys(candidate[j]), removed)
		if !ok {
			continue
		}
		out = append(out, values(at.element(i, j), live[i], candidate[j])...)
		removed = slices.DeleteFunc(slices.Clone(removed), func(r int) bool { return r == i })
		left = slices.DeleteFunc(left, func(l int) bool { return l == j })
	}
	return out, removed, left
}

// placed names an element by its array.
func placed(items []dataItem, at spot) []dataItem {
	for i, d := range items {
		if len(d.spot.candidate) == len(at.candidate)+1 {
			items[i].name = at.ref
		}
	}
	return items
}

// partKeys are texts of the parts of an object, with where they are in it; none of other values.
func partKeys(v *structpb.Value) (keys []string) {
	if v.GetStructValue() == nil {
		return nil
	}
	for _, d := range partsOf(spot{}, v, Candidate) {
		keys = append(keys, d.name.String()+" "+identity(d.candidate))
	}
	return keys
}

// mostAlike returns the row that is left and has most of some keys.
func mostAlike(having map[string][]int, keys []string, left []int) (row int, ok bool) {
	n := make(map[int]int)
	best := 0
	for _, key := range keys {
		for _, i := range having[key][:min(maxRows, len(having[key]))] {
			if !slices.Contains(left, i) {
				continue
			}
			if n[i]++; n[i] > best || n[i] == best && i < row {
				row, best = i, n[i]
			}
		}
	}
	return row, best > 0
}

func listOf(values []*structpb.Value) *structpb.Value {
	return structpb.NewListValue(&structpb.ListValue{Values: values})
}
