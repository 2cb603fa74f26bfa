package change

import (
	"slices"
	"strings"

	"understudy/rego/compile"
)

// settings adds those that one side alone has, and filters that are in another place of the chain: the first that
// denies answers.
func (b *builder) settings(live, candidate []Setting) {
	l, ofBoth := beyond(live, candidate)
	c, too := beyond(candidate, live)
	for i := range ofBoth {
		if ofBoth[i].Filter >= 0 && !ofBoth[i].equal(too[i]) {
			l, c = append(l, ofBoth[i]), append(c, too[i])
		}
	}
	for _, s := range l {
		b.setting(Live, s)
	}
	for _, s := range c {
		b.setting(Candidate, s)
	}
}

func (s Setting) equal(o Setting) bool { return s.Name == o.Name && s.Text == o.Text }

// beyond splits a list into what it has beyond another one, and what both have. Of equal ones each counts.
func beyond(mine, others []Setting) (alone, both []Setting) {
	others = slices.Clone(others)
	for _, one := range mine {
		if i := slices.IndexFunc(others, one.equal); i >= 0 {
			others = slices.Delete(others, i, i+1)
			both = append(both, one)
		} else {
			alone = append(alone, one)
		}
	}
	return alone, both
}

func (b *builder) setting(side Side, s Setting) {
	item := Item{Kind: Rule, Side: side, Rule: s.Name}
	setText(&item, side, s.Text)
	if s.Filter >= 0 {
		item.Kind = Condition
	}
	at := b.add(item, s.Name, s.Text)
	if at < 0 || s.Filter < 0 {
		return
	}
	half := b.half(side)
	if half.Filters == nil {
		half.Filters = make(map[int]int)
	}
	half.Filters[s.Filter] = at
}

// maxText bounds the texts of an item, in bytes.
const maxText = 120

// shown is a text on one line that is not too long.
func shown(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "�")), " ")
	if len(text) > maxText {
		text = compile.Cut(text, maxText-len("…"))
	}
	return text
}

// shownBoth are two texts of which the difference is seen.
func shownBoth(live, candidate string) (string, string) {
	l, c := shown(live), shown(candidate)
	if l != c || live == candidate {
		return l, c
	}
	same := 0
	for same < min(len(live), len(candidate)) && live[same] == candidate[same] {
		same++
	}
	from := max(0, same-maxText/4)
	return "…" + shown(live[from:]), "…" + shown(candidate[from:])
}

func setText(item *Item, side Side, text string) {
	if side == Live {
		item.Live = shown(text)
	} else {
		item.Candidate = shown(text)
	}
}
