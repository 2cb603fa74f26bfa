package report

import (
	"bytes"
	"cmp"
	"slices"

	adminpb "understudy/admin/v1"
	evidencepb "understudy/authz/evidence/v1"
	"understudy/rego/change"
)

const (
	// maxItems is the bound that the API documents.
	maxItems = 64
	// maxRows is how many items of one table are listed each. More are one line.
	maxRows = 8
)

// setItems writes in what the two policies differ, and what requests have shown of that. Before
// anything was compared, none has.
func setItems(r *adminpb.Report, list *change.List, p *evidencepb.Pair) {
	if r.RequestCount > 0 {
		r.PendingRequestCount, r.UnexaminedRequestCount = p.GetPending(), p.GetUnexamined()
	}
	if list == nil {
		return
	}
	var shown *evidencepb.Items
	if i := slices.IndexFunc(p.GetItems(), func(m *evidencepb.Items) bool { return bytes.Equal(m.GetDigest(), list.Digest) }); i >= 0 {
		shown = p.GetItems()[i]
	}
	items := make([]*adminpb.Report_Item, len(list.Items))
	for i, item := range list.Items {
		items[i] = itemOf(item, at(shown.GetShown(), i), at(shown.GetUntrue(), i))
		if items[i].State == adminpb.Report_Item_SEEN {
			r.SeenItemCount++
		} else if r.PendingRequestCount > 0 {
			items[i].State = adminpb.Report_Item_PENDING
		}
	}
	r.ItemCount = int64(len(list.Items) + list.More)
	r.Items = items
	r.ChangeId = changeID(r, list)
	setUnjudged(r)
}

// changeID returns what an acceptance names all items by; empty if there are none. Of items beyond
// those of the list nothing else is known than that they follow from the two versions.
func changeID(r *adminpb.Report, list *change.List) string {
	if r.ItemCount == 0 {
		return ""
	}
	of := []string{"all", string(list.Digest)}
	if list.More > 0 {
		of = append(of, r.PolicyEtag, r.ExperimentEtag)
	}
	return idOf(of...)
}

// at is what is at a place; places beyond the end have nothing.
func at(of []int32, i int) int64 {
	if i >= len(of) {
		return 0
	}
	return int64(of[i])
}

// setUnjudged writes the number of unjudged items.
func setUnjudged(r *adminpb.Report) {
	n := Unjudged(r)
	r.UnjudgedItemCount = &n
}

// itemOf returns an item with what so many distinct requests have shown of it.
func itemOf(of change.Item, shown, untrue int64) *adminpb.Report_Item {
	item := &adminpb.Report_Item{
		ItemId: of.ID, Kind: adminpb.Report_Item_ItemKind(of.Kind), Side: sideOf(of.Side), State: adminpb.Report_Item_UNSEEN,
		File: of.File, Line: int32(of.Line), Rule: of.Rule, DataPath: of.Path, // a line
		PolicyText: of.Live, ExperimentText: of.Candidate, RequestCount: shown, FalseRequestCount: untrue, ItemCount: 1,
	}
	if shown > 0 && (of.Kind != change.Condition || untrue > 0) {
		item.State, item.SeenCount = adminpb.Report_Item_SEEN, 1
	}
	return item
}

func sideOf(s change.Side) adminpb.Report_Item_Side {
	switch s {
	case change.Candidate:
		return adminpb.Report_Item_EXPERIMENT
	case change.Live:
		return adminpb.Report_Item_POLICY
	default:
		return adminpb.Report_Item_BOTH
	}
}

// FinishItems makes of the items of a report, which [Build] has left one for one, the list that people
// read: what was not seen first, many of one table in one line, what is beyond [change.MaxItems] in
// another one, and at most so many as the API documents. It comes after acceptances are set, which may be
// of any item. list is that of [Input].
func FinishItems(r *adminpb.Report, list *change.List) {
	if list == nil {
		return
	}
	items := foldTables(r.Items, tablesOf(list))
	slices.SortStableFunc(items, unseenFirst)
	if list.More > 0 {
		beyond := &adminpb.Report_Item{State: adminpb.Report_Item_UNSEEN, ItemCount: int64(list.More)}
		if acceptedBeyond(r, list.More) > 0 {
			beyond.State = adminpb.Report_Item_ACCEPTED
		}
		items = append(firstOf(items, maxItems-1), beyond)
		slices.SortStableFunc(items, unseenFirst)
	}
	r.Items = firstOf(items, maxItems)
}

// urgency :: state → its place in a list.
var urgency = []adminpb.Report_Item_State{
	adminpb.Report_Item_UNSEEN, adminpb.Report_Item_PENDING, adminpb.Report_Item_ACCEPTED, adminpb.Report_Item_SEEN,
}

func unseenFirst(a, b *adminpb.Report_Item) int {
	return cmp.Compare(slices.Index(urgency, a.GetState()), slices.Index(urgency, b.GetState()))
}

// foldTables puts the items of a table with more than maxRows of them in one line, which stands where the
// first of them stood. Up to maxRows that were not seen stay on lines of their own: somebody has to look
// at them, or accept them.
func foldTables(items []*adminpb.Report_Item, tables map[string]table) []*adminpb.Report_Item {
	rows := make(map[table][]*adminpb.Report_Item)
	for _, item := range items {
		if in := tables[item.GetItemId()]; in.path != "" {
			rows[in] = append(rows[in], item)
		}
	}
	lines := make(map[string]*adminpb.Report_Item) // :: ID of a folded item → the line that it is in
	for in, of := range rows {
		if len(of) > maxRows {
			fold(in, of, lines)
		}
	}
	var out []*adminpb.Report_Item
	shown := make(map[*adminpb.Report_Item]bool)
	for _, item := range items {
		line := cmp.Or(lines[item.GetItemId()], item)
		if !shown[line] {
			shown[line] = true
			out = append(out, line)
		}
	}
	return out
}

// fold makes one line of those items of a table that have none of their own.
func fold(in table, items []*adminpb.Report_Item, lines map[string]*adminpb.Report_Item) {
	folded := slices.DeleteFunc(slices.Clone(items), isOpen)
	if len(items)-len(folded) > maxRows {
		folded = items
	}
	if len(folded) < 2 {
		return
	}
	line := lineOf(in, folded)
	if len(folded) < len(items) {
		line.ItemId = "" // of the whole table
	}
	for _, item := range folded {
		lines[item.ItemId] = line
	}
}

// lineOf is one line for items of a table.
func lineOf(in table, items []*adminpb.Report_Item) *adminpb.Report_Item {
	line := &adminpb.Report_Item{
		ItemId: in.id, Kind: adminpb.Report_Item_DATA, Side: items[0].Side, State: adminpb.Report_Item_SEEN, DataPath: in.path,
		Acceptance: items[0].Acceptance,
	}
	for _, item := range items {
		line.ItemCount++
		line.SeenCount += item.SeenCount
		if item.Acceptance != line.Acceptance {
			line.Acceptance = ""
		}
		if item.Side != line.Side {
			line.Side = adminpb.Report_Item_BOTH
		}
		if unseenFirst(item, line) < 0 {
			line.State = item.State
		}
	}
	return line
}

// table is a place of data with several items, and what an acceptance names them by.
type table struct{ path, id string }

// tablesOf :: ID of an item → the table that it is in. The ID of a table is another one as soon as one
// of its items is.
func tablesOf(list *change.List) map[string]table {
	if list == nil {
		return nil
	}
	rows := make(map[string][]string)
	for _, item := range list.Items {
		if item.Table != "" {
			rows[item.Table] = append(rows[item.Table], item.ID)
		}
	}
	tables := make(map[string]table)
	for path, ids := range rows {
		of := table{path, idOf(append([]string{"table", path}, ids...)...)}
		for _, id := range ids {
			tables[id] = of
		}
	}
	return tables
}

// isOpen reports whether nobody has seen or accepted an item.
func isOpen(item *adminpb.Report_Item) bool {
	return item.State == adminpb.Report_Item_UNSEEN || item.State == adminpb.Report_Item_PENDING
}

// Unjudged is the number of items of a report that no request has shown and nobody has accepted.
func Unjudged(r *adminpb.Report) int64 {
	return r.GetItemCount() - r.GetSeenItemCount() - r.GetAcceptedItemCount()
}

// ChangeKnown reports whether it could be found out in what the policies of a report differ.
func ChangeKnown(r *adminpb.Report) bool { return r.UnjudgedItemCount != nil }
