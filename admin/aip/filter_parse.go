package aip

import (
	"strings"
	"unicode/utf8"
)

const (
	// maxFilter bounds a filter's text, in bytes.
	maxFilter = 8 << 10
	// maxDepth bounds how deep a filter's parentheses and NOTs may nest.
	maxDepth = 50
)

// node is a parsed expression of a filter.
type node interface{}

type (
	// andNode and orNode hold two or more operands.
	andNode []node
	orNode  []node
	notNode struct{ operand node }
	// literalNode is a bare text, which searches.
	literalNode struct{ value token }
	// restriction is path, comparator and argument.
	restriction struct {
		path       []string
		comparator string
		argument   token
	}
)

// tokenKind is what a token of a filter is.
type tokenKind int

const (
	tokenEnd      tokenKind = iota
	tokenText               // a bare word, which may be a field, a keyword or a value
	tokenString             // a text in quotes
	tokenName               // a text in backticks
	tokenOperator           // one of ( ) . , - : = != < <= > >=
)

type token struct {
	kind tokenKind
	text string
	// at is the place in the filter, in bytes.
	at int
	// spaced says that white space stands before the token.
	spaced bool
}

func (t token) is(operator string) bool { return t.kind == tokenOperator && t.text == operator }

func (t token) keyword(word string) bool { return t.kind == tokenText && t.text == word }

// parser parses by recursive descent (AIP-160): an expression is sequences between
// ANDs, a sequence is factors side by side, which is AND too, and a factor is terms
// between ORs: so OR binds tighter than AND.
type parser struct {
	tokens []token
	depth  int
}

func parseFilter(text string) (node, error) {
	if len(text) > maxFilter {
		return nil, errorf("The filter has %d bytes; the limit is %d.", len(text), maxFilter)
	}
	if !utf8.ValidString(text) {
		return nil, errorf("The filter is not UTF-8.")
	}
	tokens, err := lex(text)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	if p.peek().kind == tokenEnd {
		return nil, nil
	}
	n, err := p.expression()
	if err != nil {
		return nil, err
	}
	if t := p.peek(); t.kind != tokenEnd {
		return nil, unexpected(t)
	}
	return n, nil
}

func (p *parser) peek() token { return p.tokens[0] }

func (p *parser) take() token {
	t := p.tokens[0]
	if t.kind != tokenEnd {
		p.tokens = p.tokens[1:]
	}
	return t
}

func unexpected(t token) error {
	if t.kind == tokenEnd {
		return errorf("The filter ends where an expression should follow.")
	}
	return errorf("%q at position %d is not expected there.", t.text, t.at+1)
}

func (p *parser) expression() (node, error) {
	var operands andNode
	for {
		n, err := p.factor()
		if err != nil {
			return nil, err
		}
		operands = append(operands, n)
		switch t := p.peek(); {
		case t.keyword("AND"):
			p.take()
		case t.kind == tokenEnd, t.is(")"):
			if len(operands) == 1 {
				return operands[0], nil
			}
			return operands, nil
		}
	}
}

func (p *parser) factor() (node, error) {
	var operands orNode
	for {
		n, err := p.term()
		if err != nil {
			return nil, err
		}
		operands = append(operands, n)
		if !p.peek().keyword("OR") {
			break
		}
		p.take()
	}
	if len(operands) == 1 {
		return operands[0], nil
	}
	return operands, nil
}

func (p *parser) term() (node, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, errorf("The filter nests more than %d deep.", maxDepth)
	}
	defer func() { p.depth-- }()
	if t := p.peek(); t.keyword("NOT") || t.is("-") {
		p.take()
		n, err := p.term()
		return notNode{n}, err
	}
	if p.peek().is("(") {
		p.take()
		n, err := p.expression()
		if err != nil {
			return nil, err
		}
		if t := p.take(); !t.is(")") {
			return nil, errorf("A parenthesis is not closed.")
		}
		return n, nil
	}
	return p.restriction()
}

func (p *parser) restriction() (node, error) {
	first := p.take()
	if !first.member() {
		return nil, unexpected(first)
	}
	path := []string{first.text}
	for p.peek().is(".") {
		p.take()
		t := p.take()
		if t.kind != tokenText && t.kind != tokenString && t.kind != tokenName {
			return nil, unexpected(t)
		}
		path = append(path, t.text)
	}
	if p.calls(first) {
		return nil, noFunctions(strings.Join(path, "."))
	}
	if !p.peek().comparator() {
		if len(path) > 1 || first.kind == tokenName {
			first.text = strings.Join(path, ".")
		}
		return literalNode{first}, nil
	}
	comparator := p.take()
	argument, err := p.argument()
	if err == nil && p.calls(argument) {
		err = noFunctions(argument.text)
	}
	return restriction{path, comparator.text, argument}, err
}

// calls reports whether a parenthesis right behind a name makes it the call of a
// function. Behind a space it begins the next term.
func (p *parser) calls(name token) bool {
	return name.kind == tokenText && p.peek().is("(") && !p.peek().spaced
}

func noFunctions(name string) error {
	return errorf("The filter calls the function %q, and there are no functions. Compare a field, with = != < <= > >= or :; "+
		"a term in parentheses stands behind a space.", name)
}

func (p *parser) argument() (token, error) {
	t := p.take()
	if t.is("-") && !p.peek().spaced && p.peek().kind == tokenText {
		number := p.take()
		number.text = "-" + number.text
		t = number
	}
	if !t.member() {
		return t, unexpected(t)
	}
	for t.kind == tokenText && p.peek().is(".") {
		p.take()
		t.text += "." + p.take().text
	}
	return t, nil
}

// member reports whether a token can be a field or a value.
func (t token) member() bool {
	switch t.kind {
	case tokenString, tokenName:
		return true
	case tokenText:
		return t.text != "AND" && t.text != "OR" && t.text != "NOT"
	default:
		return false
	}
}

func (t token) comparator() bool {
	switch t.text {
	case ":", "=", "!=", "<", "<=", ">", ">=":
		return t.kind == tokenOperator
	}
	return false
}

// lex splits a filter into tokens. A dash is an operator only before a term, so
// that it can stand inside a bare word.
func lex(text string) ([]token, error) {
	var out []token
	spaced := true
	for i := 0; i < len(text); {
		c := text[i]
		if c == ' ' || c == '\t' || c == '\n' || c == '\r' {
			spaced, i = true, i+1
			continue
		}
		t, n, err := lexOne(text, i)
		if err != nil {
			return nil, err
		}
		t.spaced = spaced
		out = append(out, t)
		spaced, i = false, i+n
	}
	return append(out, token{kind: tokenEnd, at: len(text)}), nil
}

func lexOne(text string, at int) (token, int, error) {
	rest := text[at:]
	switch c := rest[0]; c {
	case '"', '\'':
		return lexQuoted(rest, at, tokenString)
	case '`':
		return lexQuoted(rest, at, tokenName)
	case '!', '<', '>':
		if len(rest) > 1 && rest[1] == '=' {
			return token{kind: tokenOperator, text: rest[:2], at: at}, 2, nil
		}
		if c == '!' {
			return token{}, 0, errorf("%q at position %d is not expected there.", "!", at+1)
		}
		return token{kind: tokenOperator, text: rest[:1], at: at}, 1, nil
	case '(', ')', '.', ',', ':', '=', '-':
		return token{kind: tokenOperator, text: rest[:1], at: at}, 1, nil
	}
	end := strings.IndexAny(rest, " \t\r\n\"'`!<>().,:=")
	if end < 0 {
		end = len(rest)
	}
	return token{kind: tokenText, text: rest[:end], at: at}, end, nil
}

// lexQuoted reads a text between two of its first character; a backslash takes the
// meaning of the next one away.
func lexQuoted(rest string, at int, kind tokenKind) (token, int, error) {
	var b strings.Builder
	for i := 1; i < len(rest); i++ {
		switch {
		case rest[i] == rest[0]:
			return token{kind: kind, text: b.String(), at: at}, i + 1, nil
		case rest[i] == '\\' && i+1 < len(rest):
			i++
			b.WriteByte(rest[i])
		default:
			b.WriteByte(rest[i])
		}
	}
	return token{}, 0, errorf("The quote at position %d is not closed.", at+1)
}
