package dependencies

import (
	"errors"
	"strconv"
	"strings"
)

// errReadsForm says that a text is no read set.
var errReadsForm = errors.New("this text is no read set")

// ParseReads returns the read set whose String is the text. Only the canonical form is
// accepted, since texts are compared as sets.
//
//	set  = "*" | ["?"] ["{" { name set } "}"]
//	name = a string as strconv.Quote writes it
func ParseReads(text string) (*Reads, error) {
	p := readsParser{rest: text}
	reads, err := p.node(0)
	if err != nil {
		return nil, err
	}
	if p.rest != "" || reads.String() != text {
		return nil, errReadsForm
	}
	return reads, nil
}

// maxReadsDepth bounds the nesting of a read set that is parsed: the parser calls
// itself.
const maxReadsDepth = 10_000

// readsParser takes read sets from the front of the text that is left.
type readsParser struct{ rest string }

func (p *readsParser) skip(mark string) (found bool) {
	p.rest, found = strings.CutPrefix(p.rest, mark)
	return found
}

func (p *readsParser) node(depth int) (*Reads, error) {
	if depth > maxReadsDepth {
		return nil, errReadsForm
	}
	if p.skip("*") {
		return ReadsEverything, nil
	}
	node := &Reads{exists: p.skip("?")}
	if !p.skip("{") {
		return node, nil
	}
	node.children = make(map[string]*Reads)
	for !p.skip("}") {
		quoted, err := strconv.QuotedPrefix(p.rest)
		if err != nil {
			return nil, errReadsForm
		}
		p.rest = p.rest[len(quoted):]
		name, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, errReadsForm
		}
		if node.children[name], err = p.node(depth + 1); err != nil {
			return nil, err
		}
	}
	return node, nil
}
