package cmd_test

import (
	"go/ast"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// word is a word that had several meanings here, or that readers who are not at home in English
// look up.
type word struct {
	// pattern is of a whole word, in lower case; a part of a name such as settleTime is one.
	pattern string
	// say is what stands there instead.
	say string
	// rooms are those in which the word has its one meaning, with all below them; nil if there is none.
	rooms []string
}

// notYet are rooms in which words are still to be replaced. It is empty once they are.
var notYet = []string{
	"rego", "authz/cache", "authz/extauthz/input", "authz/evidence", "authz/rehearsal", "admin/report", "cmd/understudy/reportview",
}

// words are the words. cmd/docs has those of documents.
var words = []word{
	{pattern: "settl(e[sd]?|ing|ers?|ements?)", say: "await, compact, mark or finish"},
	{pattern: "pac(e[sd]?|ers?|ing)", say: "slot, checkpoint, interval or limit"},
	{pattern: "guilty?|innocent|acquit(s|ted|tal)?", say: "culprit, clear or unattributed"},
	{pattern: "whoever|whomever", say: "anyone who, or the caller"},
	{pattern: "beside", say: "next to"},
	{pattern: "told|tells?|telling", say: "log, show, report or distinguish", rooms: notYet},
	{pattern: "witness(es|ed)?|unwitnessed", say: "example", rooms: notYet},
	{pattern: "verdicts?", say: "effect, of a decision", rooms: []string{
		"admin/report", "admin/ui", "cmd/understudy/cli", "cmd/understudy/reportview", "admin/report.go", "cmd/imports_test.go",
	}},
	{pattern: "lanes?", say: "worker, or queue", rooms: []string{"authz/rehearsal"}},
	{pattern: "questions?", say: "request, or what is asked", rooms: []string{
		"rego", "authz/cache", "cmd/understudy/author", // explain-cost lists what an evaluation asks
	}},
}

var (
	// namePart finds the words of a name: settleTime has settle and Time.
	namePart = regexp.MustCompile(`[A-Z]?[a-z]+`)
	// proseWord finds the words of a comment.
	proseWord = regexp.MustCompile(`[A-Za-z]+`)
)

// TestWords looks for the words in names and comments of the product.
func TestWords(t *testing.T) {
	patterns := make([]*regexp.Regexp, len(words))
	for i, w := range words {
		patterns[i] = regexp.MustCompile("^(" + w.pattern + ")$")
	}
	for _, file := range codeOf(t, os.DirFS("..")) {
		for _, found := range file.words() {
			for i, w := range words {
				if patterns[i].MatchString(found.text) && !w.isAtHome(file.name) {
					t.Errorf("%s:%d: say %s instead of %q", file.name, file.files.Position(found.at).Line, w.say, found.text)
				}
			}
		}
	}
}

// isAtHome reports whether a file is in one of the word's rooms.
func (w word) isAtHome(file string) bool {
	return slices.ContainsFunc(w.rooms, func(room string) bool { return file == room || strings.HasPrefix(file, room+"/") })
}

// foundWord is a word with where it stands.
type foundWord struct {
	text string
	at   token.Pos
}

// words returns those of a file's names and comments, in lower case.
func (f sourceFile) words() (out []foundWord) {
	add := func(text string, at token.Pos, pattern *regexp.Regexp) {
		for _, part := range pattern.FindAllStringIndex(text, -1) {
			out = append(out, foundWord{strings.ToLower(text[part[0]:part[1]]), at + token.Pos(part[0])})
		}
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if name, ok := n.(*ast.Ident); ok {
			add(name.Name, name.Pos(), namePart)
		}
		return true
	})
	for _, group := range f.syntax.Comments {
		for _, c := range group.List {
			add(c.Text, c.Pos(), proseWord)
		}
	}
	return out
}

// TestTypesAreNouns: a type that is named by what it does, such as comparing, is named by what it is.
func TestTypesAreNouns(t *testing.T) {
	for _, file := range codeOf(t, os.DirFS("..")) {
		for _, d := range file.syntax.Decls {
			for _, name := range typeNames(d) {
				if strings.HasSuffix(name, "ing") && !slices.Contains(nouns, strings.ToLower(name)) {
					t.Errorf("%s: name the type %s by a noun", file.name, name)
				}
			}
		}
	}
}

// nouns end in -ing, too.
var nouns = []string{"binding", "keyring", "rendering", "ring", "setting", "string"}

func typeNames(d ast.Decl) (out []string) {
	if d, ok := d.(*ast.GenDecl); ok {
		for _, spec := range d.Specs {
			if s, ok := spec.(*ast.TypeSpec); ok {
				out = append(out, s.Name.Name)
			}
		}
	}
	return out
}
