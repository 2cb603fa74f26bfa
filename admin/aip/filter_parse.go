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
//
// It is one of the types below. nil is the filter that is empty, which matches everything.
type node interface{}

type (
	// andNode and orNode hold two or more operands.
	andNode []node
	orNode  []node
	notNode struct{ operand node }
	// literalNode is a bare text, which searches.
	// AIP-160 calls this a global restriction.
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

// token is a part of a filter's text: a word, a text in quotes or backticks, or an operator.
type token struct {
	kind tokenKind
	text string
	// at is the place in the filter, in bytes.
	at int
	// spaced says that white space stands before the token.
	spaced bool
}

// is reports whether a token is this operator. The same character in quotes is none.
func (t token) is(operator string) bool { return t.kind == tokenOperator && t.text == operator }

// keyword reports whether a token is AND, OR or NOT: in upper case, and not in quotes.
func (t token) keyword(word string) bool { return t.kind == tokenText && t.text == word }

// parser parses by recursive descent (AIP-160): an expression is sequences between
// ANDs, a sequence is factors side by side, which is AND too, and a factor is terms
// between ORs: so OR binds tighter than AND.
//
// The grammar of AIP-160, with the names of the methods that read each line:
//
//	expression  = factor { [ "AND" ] factor }
//	factor      = term { "OR" term }
//	term        = ( "NOT" | "-" ) term | "(" expression ")" | restriction
//	restriction = member { "." member } [ comparator argument ]
//	comparator  = ":" | "=" | "!=" | "<" | "<=" | ">" | ">="
//
// The EBNF of AIP-160 also has functions. There are none here, and a call is refused with a text
// that says so. It lets a whole expression in parentheses stand as an argument; here an argument
// is one value.
type parser struct {
	tokens []token
	// depth is how many terms are open: parentheses and NOTs, which recursion follows.
	depth int
}

// parseFilter parses a filter. It knows no field: that is for [Schema.check].
func parseFilter(text string) (node, error) {
	if len(text) > maxFilter {
		return nil, errorf("The filter has %d bytes; the limit is %d.", len(text), maxFilter)
	}
	// A string field of protobuf is UTF-8, but one that arrives as a query parameter need not be.
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
	// An expression ends at a parenthesis that nothing opened.
	if t := p.peek(); t.kind != tokenEnd {
		return nil, unexpected(t)
	}
	return n, nil
}

// peek returns the next token and leaves it there. The last one is tokenEnd, which take leaves there
// for ever, so that no method needs to look whether there is one.
func (p *parser) peek() token { return p.tokens[0] }

// take returns the next token and goes behind it.
func (p *parser) take() token {
	t := p.tokens[0]
	if t.kind != tokenEnd {
		p.tokens = p.tokens[1:]
	}
	return t
}

// unexpected is the error of a token that stands where none like it may. Positions are bytes, and
// count from 1, as editors do.
func unexpected(t token) error {
	if t.kind == tokenEnd {
		return errorf("The filter ends where an expression should follow.")
	}
	return errorf("%q at position %d is not expected there.", t.text, t.at+1)
}

// expression reads operands until the end or a closing parenthesis, which stays for [parser.term].
// AIP-160 distinguishes a sequence and an AND only for ranking; to match, both are AND.
func (p *parser) expression() (node, error) {
	var operands andNode
	for {
		// Each turn is one operand, with or without AND behind it.
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

// factor reads the terms of an OR. `a b OR c` is `a AND (b OR c)`.
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

// term reads an operand. The bound on its depth keeps a filter of 8 KiB of parentheses from
// thousands of frames on the stack.
func (p *parser) term() (node, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, errorf("The filter nests more than %d deep.", maxDepth)
	}
	defer func() { p.depth-- }()
	// `-field:x` is an older spelling of `NOT field:x`, which AIP-160 keeps.
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

// restriction reads a path with what it is compared with, or a bare text.
func (p *parser) restriction() (node, error) {
	// The first name is taken before it is known whether it is a field or a text that is searched for.
	first := p.take()
	if !first.member() {
		return nil, unexpected(first)
	}
	path := []string{first.text}
	for p.peek().is(".") {
		p.take()
		t := p.take()
		// Behind a dot keywords are names, too: `labels.AND` is a key.
		if t.kind != tokenText && t.kind != tokenString && t.kind != tokenName {
			return nil, unexpected(t)
		}
		path = append(path, t.text)
	}
	if p.calls(first) {
		return nil, noFunctions(strings.Join(path, "."))
	}
	if !p.peek().comparator() {
		// A search for v1.2 means the text as it was written, not a field 2 of v1.
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

// noFunctions is the error of a call.
func noFunctions(name string) error {
	return errorf("The filter calls the function %q, and there are no functions. Compare a field, with = != < <= > >= or :; "+
		"a term in parentheses stands behind a space.", name)
}

// argument reads a value. Its parts are put together again: -5 is a dash and a word for lex, and 1.5
// is two words with a dot.
func (p *parser) argument() (token, error) {
	t := p.take()
	// A dash before a space would be a NOT without its term.
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

// comparator reports whether a token compares.
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
	// The first token is spaced, as if there were a line break before it.
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

// lexOne reads the token that begins at a byte, and returns how many bytes it has.
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
	// A dash is not among them: order-service is one word.
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
		// `\"` is a quote, and `\\` a backslash. `\n` is an n: a filter has one line.
		case rest[i] == '\\' && i+1 < len(rest):
			i++
			b.WriteByte(rest[i])
		default:
			b.WriteByte(rest[i])
		}
	}
	return token{}, 0, errorf("The quote at position %d is not closed.", at+1)
}
