package change

import "slices"

// Kind is what differs.
type Kind int

// The kinds.
const (
	// Rule: a body of a rule, an else branch or a default that only one side has, or what else only one side has that
	// decides. It is seen when a request is decided otherwise without it.
	Rule Kind = iota + 1
	// Condition: an expression that only one side has, of a rule that both have. It is seen when it was true for
	// some request, and asked and not true for some other one, and each would be decided otherwise if it had not
	// been so. Of a condition that gives values to variables of its rule the second part is not found out.
	Condition
	// Literal: an expression in which constants alone differ; of a table each part that differs. It is seen when a
	// request is decided otherwise with the constants of the other side.
	Literal
	// Data: a place of data; of what only one side has the whole and each part. It is seen when a request is decided
	// otherwise with what the other side has there.
	Data
)

// Side is the policy that has an item.
type Side int

// The sides.
const (
	// Candidate: it was added.
	Candidate Side = iota + 1
	// Live: it was removed.
	Live
	// Both: it was changed.
	Both
)

// Item is one thing in which two policies differ.
type Item struct {
	// ID is 20 hexadecimal digits. It follows from what differs, and not from where it stands.
	ID   string
	Kind Kind
	Side Side
	// File and Line are where it begins in a module, of what both sides have in that of the candidate;
	// Line counts from 1. Data has neither.
	File string
	Line int
	// Rule is the name of its rule, such as data.envoy.authz.allow. Data has none.
	Rule string
	// Path is the place of data, such as data.roles.auditor; empty for others.
	Path string
	// Element says that it is an element of the array at Path.
	Element bool
	// Table is the place that an item of data is in.
	Table string
	// Live and Candidate are what differs, as the policies have it, cut after 120 bytes; empty if the side
	// has nothing.
	Live, Candidate string
}

// EntriesOf begins the place of an item that is in a table: it stands for all entries of that.
const EntriesOf = "entries of "

// Place says of an item of data where it is and what differs, in a line: that it is in a table, which has many that
// differ, or "data.roles.auditor: 1 → 2", "data.users: + \"eve\"", "data.users: − \"eve\"".
func (i Item) Place() string {
	switch {
	case i.Table != "":
		return EntriesOf + i.Table
	case i.Side == Candidate:
		return i.Path + ": + " + i.Candidate
	case i.Side == Live:
		return i.Path + ": − " + i.Live
	default:
		return i.Path + ": " + i.Live + " → " + i.Candidate
	}
}

// MaxItems is how many items are examined. What is beyond is counted, and never seen.
const MaxItems = 4096

// List is all in which two policies differ. It is immutable.
type List struct {
	// Items are at most MaxItems, in an order that follows from the policies alone.
	Items []Item
	// More is how many there are beyond.
	More int
	// Digest tells the list from others: evidence names items by their place in the list.
	Digest []byte
}

// HasData reports whether there are items of data.
func (l *List) HasData() bool {
	return l != nil && slices.ContainsFunc(l.Items, func(i Item) bool { return i.Kind == Data })
}

// None reports whether it is known that there are no items.
func (l *List) None() bool { return l != nil && len(l.Items) == 0 && l.More == 0 }
