package verdict

import (
	"fmt"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
)

// TakesBack says in a clause what a commit would undo; empty if that is nothing.
//
// Somebody changed the live policy after the experiment was made from it, and the experiment does not have that:
//
//	it takes back 2 changes of the live policy since it was made, the last one by token:ann at 2026-11-28 13:39 UTC
func TakesBack(r *adminpb.Report) string {
	if !report.TakesBack(r) {
		return ""
	}
	text := "it takes back " + Counted(r.GetTakenBackCount(), "change") + " of the live policy since it was made"
	last := r.PolicyActivation
	if last == nil {
		return text
	}
	text += ", the last one"
	if last.Creator != "" {
		text += " by " + last.Creator
	}
	return text + " at " + last.ActivateTime.AsTime().UTC().Format("2006-01-02 15:04 UTC")
}

// TakenBack are the changes of the live policy that a commit would undo, one in a text.
//
//	data.users.u100.suspended: true was added
//	data.shop.allow (shop.rego:9): h < 22 became h < 21; the experiment has another version, or none that has an effect
func TakenBack(r *adminpb.Report) (texts []string) {
	for _, c := range r.TakenBackChanges {
		text := changePlace(c) + ": "
		switch {
		case c.Kind == adminpb.Report_Item_ITEM_KIND_UNSPECIFIED:
			text = "a change that cannot be named"
		case c.BaseText == "":
			text += c.PolicyText + " was added"
		case c.PolicyText == "":
			text += c.BaseText + " was removed"
		default:
			text += c.BaseText + " became " + c.PolicyText
		}
		if c.State == adminpb.Report_TakenBackChange_OVERRIDDEN {
			text += "; the experiment has another version, or none that has an effect"
		}
		texts = append(texts, text)
	}
	if more := r.GetTakenBackCount() - int64(len(texts)); more > 0 {
		texts = append(texts, "and "+Counted(more, "more change"))
	}
	return texts
}

// changePlace is where a change is: a place of data, or a rule with its line.
func changePlace(c *adminpb.Report_TakenBackChange) string {
	switch {
	case c.DataPath != "":
		return c.DataPath
	case c.File == "":
		return c.Rule
	default:
		return fmt.Sprintf("%s (%s:%d)", c.Rule, c.File, c.Line)
	}
}
