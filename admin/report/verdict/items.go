package verdict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
)

// Unseen says of how many of the items in which the policies differ a report says nothing, or that it is
// not known in what they differ. It is empty if requests have shown all of them.
//
// An item is one place in which the two policies differ: a rule, a condition, a literal, or a path of the
// data. It is seen when a request has shown what it does. These are the forms:
//
//	5 of 15 items were not seen
//	5 of 15 items were not seen, 2 of them accepted
//	5 of 15 items were not seen so far; 40 requests are still being examined
//	it is not known in what the policies differ
func Unseen(r *adminpb.Report) string {
	if !report.ChangeKnown(r) {
		return "it is not known in what the policies differ"
	}
	n, accepted := report.Unjudged(r), r.AcceptedItemCount
	if n+accepted == 0 {
		return ""
	}
	text := report.Number(n+accepted) + " of " + Counted(r.ItemCount, "item") + wereOf(n+accepted) + " not seen"
	switch {
	case n == 0:
		return text + ", but accepted"
	case accepted > 0:
		text += ", " + report.Number(accepted) + " of them accepted"
	}
	switch pending, left := r.PendingRequestCount, r.UnexaminedRequestCount; {
	case pending > 0:
		return text + " so far; " + Counted(pending, "request") + areOf(pending) + " still being examined"
	case left > 0:
		return text + "; " + Counted(left, "request") + " could not be examined"
	}
	return text
}

// NothingKnown is said after Unseen, once it is known that no request has shown those items. Where requests are
// decided otherwise, that may be by one of them.
//
// Without a difference the unseen items are all that could still make one.
func NothingKnown(r *adminpb.Report) string {
	switch n := report.Unjudged(r) + r.GetAcceptedItemCount(); {
	case !report.ChangeKnown(r) || !report.Examined(r) || n == 0 || differing(r) > 0:
		return ""
	case n == 1:
		return ": nothing is known of it"
	default:
		return ": nothing is known of them"
	}
}

// ItemsIn returns those items of a report that are in one of the states, those of the first state first.
func ItemsIn(r *adminpb.Report, states ...adminpb.Report_Item_State) (items []*adminpb.Report_Item) {
	for _, state := range states {
		for _, item := range r.GetItems() {
			if item.State == state {
				items = append(items, item)
			}
		}
	}
	return items
}

// NotSeen are the listed items that no request has shown, those first that nobody has accepted.
//
// Accepted ones stay on the list: somebody has said that nothing needs to be known of them, and that is
// no knowledge.
func NotSeen(r *adminpb.Report) []*adminpb.Report_Item {
	return ItemsIn(r, adminpb.Report_Item_UNSEEN, adminpb.Report_Item_PENDING, adminpb.Report_Item_ACCEPTED)
}

// NotListed says that there are so many items more than are listed.
func NotListed(n int64) string { return "and " + Counted(n, "more item") + ", not listed" }

// Seen are the listed items that requests have shown, those first of which they have shown the least.
//
// Those that few requests have shown come first, because less is known of them.
func Seen(r *adminpb.Report) []*adminpb.Report_Item {
	items := ItemsIn(r, adminpb.Report_Item_SEEN)
	slices.SortStableFunc(items, func(a, b *adminpb.Report_Item) int { return cmp.Compare(shownBy(a), shownBy(b)) })
	return items
}

// shownBy is how many examined requests have shown an item; of a table that is not known.
//
// A condition is known as well as the rarer of its two outcomes: true for 12 requests and false for one is
// known by one.
func shownBy(item *adminpb.Report_Item) int64 {
	switch {
	case item.ItemCount > 1:
		return math.MaxInt64
	case item.Kind == adminpb.Report_Item_CONDITION:
		return min(item.RequestCount, item.FalseRequestCount)
	default:
		return item.RequestCount
	}
}

// Phrase is a sentence of which some is quoted from policies.
type Phrase []Words

// Words are a part of a Phrase. Quoted ones are of a policy.
type Words struct {
	Text   string
	Quoted bool
}

// Write returns the phrase as text: plain and quote write the words that we say, and those of a policy.
func (p Phrase) Write(plain, quote func(string) string) string {
	var b strings.Builder
	for _, w := range p {
		if w.Quoted {
			b.WriteString(quote(w.Text))
		} else {
			b.WriteString(plain(w.Text))
		}
	}
	return b.String()
}

// Item says in what the policies differ there, where that is, and what requests have shown of it:
// "condition `input.x == 1` (policy.rego:14), added: not seen false, true for 12 examined requests".
//
// It is what a tired reader sees of an item; each form has a line in the tests.
func Item(item *adminpb.Report_Item) Phrase {
	return append(What(item), Words{Text: ": " + Shown(item)})
}

// BecameWord stands between the texts of both sides.
const BecameWord = " became "

// What says in what the policies differ, and where.
//
// The forms, with what is quoted between bars:
//
//	rule |allow if {| … (shop.rego:12), added
//	condition |input.x == 1| (shop.rego:14), removed
//	|22| became |21| (shop.rego:38)
//	|data.roles.auditor| + |settings.write|
//	|data.users|, where a whole table changed
func What(item *adminpb.Report_Item) Phrase {
	policyText, experimentText := Sides(item)
	live, candidate := Words{policyText, true}, Words{experimentText, true}
	switch {
	case item.Kind == adminpb.Report_Item_ITEM_KIND_UNSPECIFIED:
		return Phrase{{Text: countOf(item)}}
	case item.ItemCount > 1:
		return Phrase{quoted(item.DataPath)}
	case item.File == "" && item.Rule != "": // of a filter, or of what else decides
		return Phrase{quoted(item.Rule), {Text: " "}, {Text: live.Text + candidate.Text, Quoted: true}, {Text: ", " + changeWord(item)}}
	case item.Kind == adminpb.Report_Item_RULE:
		return Phrase{{Text: "rule "}, ruleOf(item), {Text: placeOf(item) + ", " + changeWord(item)}}
	case item.Kind == adminpb.Report_Item_CONDITION, item.Kind == adminpb.Report_Item_LITERAL && item.Side != adminpb.Report_Item_BOTH:
		return Phrase{{Text: kindNames[item.Kind] + " "}, {Text: live.Text + candidate.Text, Quoted: true}, {Text: placeOf(item) + ", " + changeWord(item)}}
	case item.Kind == adminpb.Report_Item_LITERAL:
		return Phrase{live, {Text: BecameWord}, candidate, {Text: placeOf(item)}}
	default:
		return dataOf(item, live, candidate)
	}
}

// countOf says how many items one stands for: all of a change, or those that are not listed.
func countOf(item *adminpb.Report_Item) string {
	if item.ItemId != "" {
		return "all " + Counted(item.ItemCount, "item")
	}
	return report.Number(item.ItemCount) + " more items"
}

// dataOf says what is at a path of the data of both policies.
func dataOf(item *adminpb.Report_Item, live, candidate Words) Phrase {
	switch item.Side {
	case adminpb.Report_Item_EXPERIMENT:
		return Phrase{quoted(item.DataPath), {Text: " + "}, candidate}
	case adminpb.Report_Item_POLICY:
		return Phrase{quoted(item.DataPath), {Text: " − "}, live}
	default:
		return Phrase{quoted(item.DataPath), {Text: ": "}, live, {Text: BecameWord}, candidate}
	}
}

// ruleOf is the text of a rule, which is cut after its first line; its name if it has none.
func ruleOf(item *adminpb.Report_Item) Words {
	text := quoted(cmp.Or(item.ExperimentText, item.PolicyText, item.Rule))
	if strings.HasSuffix(text.Text, "{") {
		text.Text += " …"
	}
	return text
}

// quoted is text of a policy, on one line.
func quoted(text string) Words { return Words{Text: onOneLine(text), Quoted: true} }

// placeOf is the file and the line of an item, in brackets.
func placeOf(item *adminpb.Report_Item) string { return " (" + Place(item) + ")" }

// Place is the file and the line of an item; empty of data.
func Place(item *adminpb.Report_Item) string {
	if item.File == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", item.File, item.Line)
}

// kindNames :: kind → what people call it.
var kindNames = map[adminpb.Report_Item_ItemKind]string{
	adminpb.Report_Item_RULE: "rule", adminpb.Report_Item_CONDITION: "condition", adminpb.Report_Item_LITERAL: "literal",
	adminpb.Report_Item_DATA: "data",
}

// Became is the kind of an item with what became of it: "condition, added".
func Became(item *adminpb.Report_Item) string { return kindNames[item.Kind] + ", " + changeWord(item) }

// changeWord is what became of an item.
//
// The side of an item is the policy that has it.
func changeWord(item *adminpb.Report_Item) string {
	switch item.Side {
	case adminpb.Report_Item_EXPERIMENT:
		return "added"
	case adminpb.Report_Item_POLICY:
		return "removed"
	default:
		return "changed"
	}
}

// Shown says what requests have shown of an item.
//
// Pending ones may still become seen by requests that have come already.
func Shown(item *adminpb.Report_Item) string {
	if item.Kind == adminpb.Report_Item_ITEM_KIND_UNSPECIFIED && item.ItemId == "" {
		return "too many to be examined"
	}
	text := shownOf(item)
	switch item.State {
	case adminpb.Report_Item_PENDING:
		text += " so far"
	case adminpb.Report_Item_ACCEPTED:
		text += "; accepted"
	}
	return text
}

func shownOf(item *adminpb.Report_Item) string {
	switch {
	case item.Kind == adminpb.Report_Item_ITEM_KIND_UNSPECIFIED:
		return report.Number(item.SeenCount) + " seen"
	case item.ItemCount > 1:
		return report.Number(item.ItemCount) + " " + changeWord(item) + ", " + report.Number(item.SeenCount) + " seen"
	case item.Kind == adminpb.Report_Item_RULE && strings.HasPrefix(item.PolicyText+item.ExperimentText, "default "):
		return requests(item) + " came to it"
	case item.Kind == adminpb.Report_Item_CONDITION:
		return truth(item)
	case item.Kind == adminpb.Report_Item_RULE || item.Side != adminpb.Report_Item_BOTH:
		return requests(item) + " needed it"
	default:
		return requests(item) + areOf(max(1, item.RequestCount)) + " decided otherwise by it"
	}
}

// truth says for how many requests a condition was true, and for how many it was not.
//
// A condition whose one outcome was never met decides nothing that was seen: "not seen false" of a new
// condition means that it has turned nobody away so far.
func truth(item *adminpb.Report_Item) string {
	yes, no := item.RequestCount, item.FalseRequestCount
	switch {
	case yes == 0 && no == 0:
		return "no examined request asked it"
	case no == 0:
		return "not seen false, true for " + atLeast(yes)
	case yes == 0:
		return "not seen true, false for " + atLeast(no)
	default:
		return "true for " + atLeast(yes) + ", false for " + report.Number(no)
	}
}

// requests is how many requests have shown an item.
func requests(item *adminpb.Report_Item) string {
	if item.RequestCount == 0 {
		return "no request"
	}
	return atLeast(item.RequestCount)
}

// examined is after how many requests a sidecar examines no more for an item.
const examined = 100

// atLeast is a number of examined requests, which may be more if it is that after which no more are
// examined.
//
// A sidecar stops after a hundred: what a hundred requests have shown is not made surer by more, and
// each costs an evaluation.
func atLeast(n int64) string {
	if n >= examined {
		return report.Number(n) + " or more examined requests"
	}
	return Counted(n, "examined request")
}
