package reportview

import (
	"strings"
	"unicode/utf8"

	"understudy/admin/report"
	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
	"understudy/cmd/understudy/terminal"
)

// markdownItems is the most items of a list of Markdown, for the reason of markdownGroups.
const markdownItems = 20

// items lists of the items of the change what no request has shown, and as far as there is room what was shown
// of the others: a single request shows little.
//
// For example:
//
//	Unseen   5 of 15 items were not seen: nothing is known of them
//	           `data.roles.auditor` + `settings.write`: no request needed it
func (p *page) items() {
	p.gap()
	text := verdict.Unseen(p.r)
	if text != "" {
		p.section("Unseen", text+verdict.NothingKnown(p.r))
		p.itemList(verdict.NotSeen(p.r), report.Unjudged(p.r)+p.r.AcceptedItemCount, p.d.items)
	}
	if seen := p.r.SeenItemCount; seen > 0 && (text == "" || p.d.seen > 0) {
		p.section("Seen", seenOf(p.r))
		if p.d.seen > 0 {
			p.itemList(verdict.Seen(p.r), seenAlone(p.r), p.d.seen)
		}
	}
}

// seenOf says how many items requests have shown.
func seenOf(r *adminpb.Report) string {
	if r.SeenItemCount == r.ItemCount {
		return "each of " + verdict.Counted(r.ItemCount, "item")
	}
	return report.Number(r.SeenItemCount) + " of " + verdict.Counted(r.ItemCount, "item")
}

// itemList lists at most so many items below each other, of so many that there are. Where they are, and what
// requests have shown, is never cut.
//
// What may be cut is only text of a policy, since a reader finds that by file and line.
func (p *page) itemList(items []*adminpb.Report_Item, of int64, most int) {
	const indent = "  "
	room := p.o.columns() - labelColumns - 2*len(indent)
	shown := items[:min(len(items), most)]
	for _, item := range shown {
		if !p.d.examples {
			p.row("", indent+shortened(item, room+len(indent)))
			continue
		}
		phrase := verdict.Item(item)
		if longest := longestQuoted(phrase); longest != nil && terminal.Columns(longest.Text) > room {
			cutSame(phrase) // a word may be longer than a line, which cuts it
		}
		for i, line := range wrap(phrase.Write(terminal.Line, inBackticks)+p.named(item), room) {
			if i > 0 {
				line = indent + line
			}
			p.row("", indent+line)
		}
	}
	if more := moreItems(shown, of); more != "" {
		p.row("", indent+more)
	}
}

// leastQuoted is the fewest columns of a text of a policy that say something.
const leastQuoted = 8

// shortened is an item on one line, if it is enough to leave out for how many requests an unseen condition was
// so, and to cut the texts that the item has of a policy, the longest first. In what they differ stays.
//
// A list of ten items on ten lines is read; the same on thirty lines is not.
func shortened(item *adminpb.Report_Item, columns int) string {
	phrase := verdict.Item(item)
	if last := &phrase[len(phrase)-1]; item.Kind == adminpb.Report_Item_CONDITION && item.State != adminpb.Report_Item_SEEN {
		last.Text, _, _ = strings.Cut(last.Text, ", ")
	}
	over := func() int { return terminal.Columns(phrase.Write(terminal.Line, inBackticks)) - columns }
	if over() > 0 {
		cutSame(phrase)
		last := &phrase[len(phrase)-1]
		last.Text = strings.NewReplacer(" examined requests, ", ", ", " examined request, ", ", ").Replace(last.Text)
	}
	for range phrase {
		longest, by := longestQuoted(phrase), over()
		if longest == nil || by <= 0 {
			break
		}
		text := terminal.Line(longest.Text)
		longest.Text = shortenedText(text, max(leastQuoted, terminal.Columns(text)-by))
	}
	return phrase.Write(terminal.Line, inBackticks)
}

// sameBefore is how many characters stay of what two texts have in common before they differ.
const sameBefore = 3

// cutSame cuts off what the texts of both sides have in common at their beginning, so that whatever is cut
// after that, they can be distinguished.
//
// Two long literals that differ in their last character would else be cut to the same text.
func cutSame(phrase verdict.Phrase) {
	for i := 1; i+1 < len(phrase); i++ {
		live, candidate := &phrase[i-1], &phrase[i+1]
		if phrase[i].Text != verdict.BecameWord || !live.Quoted || !candidate.Quoted {
			continue
		}
		a, b := []rune(live.Text), []rune(candidate.Text)
		same := 0
		for same < min(len(a), len(b)) && a[same] == b[same] {
			same++
		}
		if cut := same - sameBefore; cut > 1 {
			live.Text, candidate.Text = "…"+string(a[cut:]), "…"+string(b[cut:])
		}
	}
}

// longestQuoted is the longest text of a policy in a sentence; nil if it has none.
func longestQuoted(phrase verdict.Phrase) (longest *verdict.Words) {
	columns := 0
	for i := range phrase {
		w := &phrase[i]
		if n := terminal.Columns(terminal.Line(w.Text)); w.Quoted && (longest == nil || n > columns) {
			longest, columns = w, n
		}
	}
	return longest
}

// shortenedText cuts the end off a text, and of a path the beginning, which says less.
//
// The end of data.tenants.acme.users.u17.roles is what tells it apart from its neighbours.
func shortenedText(text string, columns int) string {
	if terminal.Columns(text) <= columns || !strings.HasPrefix(text, "data.") {
		return terminal.Cut(text, columns)
	}
	for terminal.Columns(text) >= columns {
		_, n := utf8.DecodeRuneInString(text)
		text = text[n:]
	}
	return "…" + text
}

// inBackticks is text of a policy within a sentence of a terminal.
func inBackticks(text string) string { return "`" + terminal.Line(text) + "`" }

// seenAlone is how many items were seen that are in no line with others that were not.
func seenAlone(r *adminpb.Report) int64 {
	n := r.SeenItemCount
	for _, line := range verdict.NotSeen(r) {
		n -= line.SeenCount
	}
	return n
}

// moreItems says how many of so many items are not among those that are shown; empty if none is left
// out. One that stands for several of a table counts as those of them that are in its state.
//
// A table of 4,096 changed rows is one line, which stands for all of its rows.
func moreItems(shown []*adminpb.Report_Item, of int64) string {
	for _, item := range shown {
		if item.State == adminpb.Report_Item_SEEN {
			of -= item.SeenCount
		} else {
			of -= item.ItemCount - item.SeenCount
		}
	}
	if of <= 0 {
		return ""
	}
	return "and " + report.Number(of) + " more"
}

// items is the same as a list of Markdown.
func (m *markdown) items() {
	if text := verdict.Unseen(m.r); text != "" {
		m.line("* unseen: %s%s", prose(text), verdict.NothingKnown(m.r))
		m.itemList(verdict.NotSeen(m.r), report.Unjudged(m.r)+m.r.AcceptedItemCount)
	}
	if m.r.SeenItemCount > 0 {
		m.line("* seen: %s", seenOf(m.r))
		m.itemList(verdict.Seen(m.r), seenAlone(m.r))
	}
}

// itemList lists items of so many.
func (m *markdown) itemList(items []*adminpb.Report_Item, of int64) {
	shown := items[:min(len(items), markdownItems)]
	for _, item := range shown {
		m.line("  * %s", verdict.Item(item).Write(prose, code))
	}
	if more := moreItems(shown, of); more != "" {
		m.line("  * %s", more)
	}
}

// unseenLines are the items that no request has shown, each on a line.
//
// A pipeline shows the text of a failure, so these lines are what its reader has to go on.
func unseenLines(r *adminpb.Report) string {
	var lines []string
	for _, item := range verdict.NotSeen(r) {
		if item.State != adminpb.Report_Item_ACCEPTED {
			lines = append(lines, verdict.Item(item).Write(terminal.Line, inBackticks))
		}
	}
	return strings.Join(lines, "\n")
}

// named is what an acceptance names an item by that no request has shown, and who has accepted it.
//
// The ID is what `understudy accept shop/tighter --item ID` takes, so it stands where it is needed: at what
// was not seen.
func (p *page) named(item *adminpb.Report_Item) (text string) {
	if item.ItemId == "" || report.SeenWhole(item) {
		return ""
	}
	text = " (item " + report.ShortID(item.ItemId)
	if by := report.AcceptanceOf(p.r, item); by != nil {
		text += ", " + terminal.Line(verdict.Accepted(by))
	}
	return text + ")"
}
