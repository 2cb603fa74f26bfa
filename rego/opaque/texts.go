package opaque

import (
	"encoding/binary"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// texts are those with which a program compares values by one test, and numbers in their usual form. A request's
// value is compared with all of them at once: one question, and one answer for most requests.
type texts struct {
	count int
	// at :: text → its place, and numbers :: number as it is written → its place.
	at, numbers map[string]int
	// lengths are those of the texts, each once, ascending.
	lengths []int
}

// matches are places of texts, ascending.
type matches []uint32

// AddTexts adds the texts of a value with which the program compares by a test, and for Equal the numbers in their
// usual form. It is for when a program is compiled.
func (v *Vocabulary) AddTexts(test *Test, terms ...*ast.Term) {
	if test.texts == nil {
		return
	}
	t := v.texts[test]
	if t == nil {
		t = &texts{at: make(map[string]int), numbers: make(map[string]int)}
		v.texts[test] = t
	}
	for _, term := range terms {
		if term == nil {
			continue
		}
		switch value := term.Value.(type) {
		case ast.String:
			if len(value) <= maxElement {
				t.add(t.at, string(value))
				t.addLength(len(value))
			}
		case ast.Number:
			if test == Equal && usualNumber(string(value)) {
				t.add(t.numbers, string(value))
			}
		}
	}
}

func (t *texts) add(to map[string]int, text string) {
	if _, ok := to[text]; !ok {
		to[text] = t.count
		t.count++
	}
}

func (t *texts) addLength(n int) {
	if i, found := slices.BinarySearch(t.lengths, n); !found {
		t.lengths = slices.Insert(t.lengths, i, n)
	}
}

// equal returns the text or the number that a value is. It reports false for a number in another form than the usual
// one, which may be equal to one of the numbers.
func (t *texts) equal(content *ast.Term) (matches, bool) {
	in, text := t.at, ""
	switch value := content.Value.(type) {
	case ast.String:
		text = string(value)
	case ast.Number:
		in, text = t.numbers, string(value)
		if len(in) > 0 && !usualNumber(text) {
			return nil, false
		}
	default:
		return nil, true
	}
	if i, ok := in[text]; ok {
		return matches{uint32(i)}, true
	}
	return nil, true
}

// prefixes returns the texts with which a value begins. It reports false if the value is no text.
func (t *texts) prefixes(content *ast.Term) (matches, bool) {
	return t.ends(content, func(text string, n int) string { return text[:n] })
}

// suffixes returns the texts with which a value ends. It reports false if the value is no text.
func (t *texts) suffixes(content *ast.Term) (matches, bool) {
	return t.ends(content, func(text string, n int) string { return text[len(text)-n:] })
}

func (t *texts) ends(content *ast.Term, part func(text string, n int) string) (out matches, ok bool) {
	text, ok := content.Value.(ast.String)
	if !ok {
		return nil, false
	}
	for _, n := range t.lengths {
		if n > len(text) {
			break
		}
		if i, ok := t.at[part(string(text), n)]; ok {
			out = append(out, uint32(i))
		}
	}
	slices.Sort(out)
	return out, true
}

// members returns the texts that are elements of a short array of short texts, or of a small set. It reports
// false if the value is neither.
func (t *texts) members(content *ast.Term) (out matches, ok bool) {
	take := func(element *ast.Term) {
		text, isText := element.Value.(ast.String)
		if i, known := t.at[string(text)]; known && isText {
			out = append(out, uint32(i))
		}
	}
	if set, isSet := smallSet(content); isSet {
		set.Foreach(take)
	} else if list, isList := shortTexts(content); isList {
		list.Foreach(take)
	} else {
		return nil, false
	}
	slices.Sort(out)
	return slices.Compact(out), true
}

// Place returns the place of a text of the program; false if the test is not asked for all texts at once, or not for
// this one.
func (v *Vocabulary) Place(test *Test, text *ast.Term) (uint32, bool) {
	t := v.texts[test]
	if t == nil {
		return 0, false
	}
	var i int
	ok := false
	switch value := text.Value.(type) {
	case ast.String:
		i, ok = t.at[string(value)]
	case ast.Number:
		i, ok = t.numbers[string(value)]
	}
	return uint32(i), ok
}

// form appends what stands for matches in a record.
func (m matches) form(b []byte) []byte {
	for _, i := range m {
		b = binary.BigEndian.AppendUint32(b, i)
	}
	return b
}

func (m matches) has(i uint32) bool {
	if len(m) <= 8 {
		return slices.Contains(m, i)
	}
	_, found := slices.BinarySearch(m, i)
	return found
}
