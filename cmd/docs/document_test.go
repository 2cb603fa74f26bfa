package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// repository is the root of the repository, from this package.
const repository = "../.."

// document is a file in Markdown, by its path in the repository.
type document struct {
	path, text string
}

// documents returns every document of the repository.
func documents(t *testing.T) (all []document) {
	t.Helper()
	err := filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != repository && apart(d.Name()):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		content, err := os.ReadFile(path)
		name, _ := filepath.Rel(repository, path)
		all = append(all, document{path: name, text: string(content)})
		return err
	})
	if err != nil || len(all) < 5 {
		t.Fatalf("the repository has %d documents (%v)", len(all), err)
	}
	return all
}

// apart reports whether a folder is not the repository's own: it is hidden or built.
func apart(folder string) bool {
	return strings.HasPrefix(folder, ".") && folder != ".ci" || slices.Contains([]string{"bin", "dist", "node_modules"}, folder)
}

// block is a fenced block of code.
type block struct {
	line     int // of its first line of text
	language string
	text     string
}

var fence = regexp.MustCompile("^ *```(.*)$")

// blocks returns the fenced blocks of a document.
func (d document) blocks() (blocks []block) {
	inside := false
	for i, text := range strings.Split(d.text, "\n") {
		m := fence.FindStringSubmatch(text)
		switch {
		case m != nil && inside:
			inside = false
		case m != nil:
			blocks = append(blocks, block{line: i + 2, language: m[1]})
			inside = true
		case inside:
			blocks[len(blocks)-1].text += text + "\n"
		}
	}
	return blocks
}

// step is a command of a document, with what is said of it.
type step struct {
	line    int
	command string
	comment string   // what stands behind a # on its last line
	output  []string // what is shown of its output, if it is
}

// steps returns the commands of a block: those of sh are expected to succeed, and
// those of console to print what follows them. A block of console that begins without
// a command is what the server prints that is running.
func (b block) steps() (steps []step) {
	if b.language == "sh" {
		return splitCommands(b.line, b.text)
	}
	for i, text := range strings.Split(strings.TrimSuffix(b.text, "\n"), "\n") {
		command, found := strings.CutPrefix(text, "$ ")
		switch {
		case found:
			steps = append(steps, step{line: b.line + i, command: command})
			continue
		case len(steps) == 0:
			steps = append(steps, step{line: b.line + i})
		}
		last := &steps[len(steps)-1]
		if continued(last.command) {
			last.command += "\n" + text
			continue
		}
		last.output = append(last.output, text)
	}
	return steps
}

// splitCommands splits a script into its commands: a line each, unless it is continued.
func splitCommands(line int, script string) (steps []step) {
	current := step{}
	for i, text := range strings.Split(script, "\n") {
		if current.command == "" {
			current.line = line + i
		} else {
			current.command += "\n"
		}
		code, comment := cutComment(current.command, text)
		current.command, current.comment = current.command+code, comment
		if strings.TrimSpace(current.command) == "" {
			current.command = ""
		} else if !continued(current.command) {
			steps = append(steps, current)
			current = step{}
		}
	}
	return steps
}

// continued reports whether a command goes on in the next line.
func continued(command string) bool {
	return strings.HasSuffix(command, `\`) || quoted(command) != 0
}

// quoted returns the quotation mark that is open at the end of a text, or 0.
func quoted(text string) (open rune) {
	escaped := false
	for _, r := range text {
		switch {
		case escaped:
			escaped = false
		case r == '\\' && open != '\'':
			escaped = true
		case open == r:
			open = 0
		case open == 0 && (r == '\'' || r == '"'):
			open = r
		}
	}
	return open
}

// cutComment splits a line that stands behind a text of the same command before its
// comment, if it has one.
func cutComment(before, text string) (code, comment string) {
	for i := range text {
		if text[i] == '#' && (i == 0 || text[i-1] == ' ') && quoted(before+text[:i]) == 0 {
			return strings.TrimRight(text[:i], " "), strings.TrimSpace(text[i+1:])
		}
	}
	return text, ""
}

// maxWords is how long a document may be: a page, and not a book. What is longer becomes
// topics in files of their own.
const maxWords = 1500

func TestDocumentsAreShort(t *testing.T) {
	for _, d := range documents(t) {
		if words := len(strings.Fields(d.text)); words > maxWords {
			t.Errorf("%s has %d words, more than %d: move a topic to a file next to it", d.path, words, maxWords)
		}
	}
}

var (
	// puzzling are words that readers who are not at home in English look up, or that had
	// several meanings here.
	puzzling = regexp.MustCompile(`(?i)\b(whoever|whomever|beside|told|tells|guilty?|innocent|acquit\w*)\b`)
	// verbatim is text of programs: code, and where a link leads.
	verbatim = regexp.MustCompile("(?s)```.*?```|`[^`]*`|\\]\\([^)]*\\)")
)

func TestDocumentsArePlain(t *testing.T) {
	for _, d := range documents(t) {
		if strings.Contains(d.path, "testdata/") {
			continue // what a program prints has tests of its own
		}
		for _, word := range puzzling.FindAllString(verbatim.ReplaceAllString(d.text, ""), -1) {
			t.Errorf("%s: say %q in plainer words", d.path, word)
		}
	}
}

func TestSteps(t *testing.T) {
	sh := block{line: 7, language: "sh", text: "# all\na 1   # one: two\nb 'x\n # y' \\\n  z\n\nc\n"}.steps()
	console := block{line: 1, language: "console", text: "$ a \\\n  1\nx\n y\n$ b\n"}.steps()
	server := block{line: 1, language: "console", text: "printed\n"}.steps()
	for _, c := range []struct {
		got  []step
		want []step
	}{
		{sh, []step{{8, "a 1", "one: two", nil}, {9, "b 'x\n # y' \\\n  z", "", nil}, {13, "c", "", nil}}},
		{console, []step{{1, "a \\\n  1", "", []string{"x", " y"}}, {5, "b", "", nil}}},
		{server, []step{{1, "", "", []string{"printed"}}}},
	} {
		if len(c.got) != len(c.want) {
			t.Errorf("got %+v, want %+v", c.got, c.want)
			continue
		}
		for i, got := range c.got {
			want := c.want[i]
			if got.line != want.line || got.command != want.command || got.comment != want.comment || !slices.Equal(got.output, want.output) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		}
	}
}
