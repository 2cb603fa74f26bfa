package table_test

import (
	"fmt"
	"strconv"
	"strings"

	"understudy/rego/change"
)

// item is one thing in which the sides differ, as a person has written it down.
type item struct {
	label, kind, side string
	// place is a module with its line, or a path of data.
	place string
	// live and candidate are what each side has there; empty where it has nothing.
	live, candidate string
}

// readItem reads `label kind side place text`, where a text of both sides is `old => new`.
func (r *row) readItem(line string) error {
	for _, one := range ranged(line) {
		words := strings.Fields(one)
		if len(words) < 5 {
			return fmt.Errorf("it is no item: label kind side place text")
		}
		i := item{label: words[0], kind: words[1], side: words[2], place: words[3]}
		text := strings.Join(words[4:], " ")
		switch i.side {
		case "live":
			i.live = text
		case "candidate":
			i.candidate = text
		case "both":
			i.live, i.candidate, _ = strings.Cut(text, " => ")
		default:
			return fmt.Errorf("a side is live, candidate or both")
		}
		r.items = append(r.items, i)
	}
	return nil
}

// String is all of an item but its label.
func (i item) String() string {
	return strings.Join([]string{i.kind, i.side, i.place, i.live, "=>", i.candidate}, " ")
}

// found is an item in the words of a row.
func found(of change.Item) item {
	out := item{
		kind:  map[change.Kind]string{change.Rule: "rule", change.Condition: "condition", change.Literal: "literal", change.Data: "data"}[of.Kind],
		side:  map[change.Side]string{change.Live: "live", change.Candidate: "candidate", change.Both: "both"}[of.Side],
		place: of.Path, live: of.Live, candidate: of.Candidate,
	}
	if of.File != "" {
		out.place = of.File + ":" + strconv.Itoa(of.Line)
	}
	return out
}

// misplaced are the items whose text is not where they say.
func (r *row) misplaced() (out []string) {
	for _, i := range r.items {
		file, number, isLine := strings.Cut(i.place, ":")
		if !isLine {
			continue
		}
		side, text := r.candidate, i.candidate
		if i.side == "live" {
			side, text = r.live, i.live
		}
		if place, value, ok := strings.Cut(text, ": "); ok && i.kind == "literal" && !strings.Contains(place, " ") {
			text = value // the place in its table comes first
		}
		lines := strings.Split(side.modules[file], "\n")
		n, _ := strconv.Atoi(number)
		if n < 1 || n > len(lines) || !strings.Contains(lines[n-1], text) {
			out = append(out, fmt.Sprintf("item %s: %s is not at %s", i.label, text, i.place))
		}
	}
	return out
}
