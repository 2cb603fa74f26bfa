package admin_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

// script is a file of the table.
type script struct {
	path       string
	statements []statement
	// files :: name → content of the archive's files.
	files map[string]string
}

// has reports whether a statement begins with a word.
func (s *script) has(word string) bool {
	return slices.ContainsFunc(s.statements, func(one statement) bool { return one.word == word })
}

// statement is one line with those that continue it.
type statement struct {
	line int
	word string
	rest string
	// block is what a for repeats.
	block []statement
}

// readScript parses a file of the table. Its first line has to be the sentence of
// the requirement that the file is named by.
func readScript(path string) (*script, error) {
	archive, err := txtar.ParseFile(path)
	if err != nil {
		return nil, err
	}
	id := strings.TrimSuffix(filepath.Base(path), ".txtar")
	if !strings.HasPrefix(string(archive.Comment), "# "+id+": ") {
		return nil, fmt.Errorf("%s: the first line has to be # %s: and the requirement", path, id)
	}
	s := &script{path: path, files: map[string]string{}}
	for _, f := range archive.Files {
		s.files[f.Name] = string(f.Data)
	}
	if s.statements, err = parseStatements(string(archive.Comment)); err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	return s, nil
}

func parseStatements(text string) ([]statement, error) {
	var flat []statement
	for i, line := range strings.Split(text, "\n") {
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == "" || strings.HasPrefix(trimmed, "#"):
		case line != strings.TrimLeft(line, " \t") && len(flat) > 0:
			last := &flat[len(flat)-1]
			last.rest = strings.TrimSpace(last.rest + "\n" + trimmed)
		default:
			word, rest, _ := strings.Cut(trimmed, " ")
			flat = append(flat, statement{line: i + 1, word: word, rest: strings.TrimSpace(rest)})
		}
	}
	return nestLoops(flat)
}

// nestLoops moves the statements of each for into its block.
func nestLoops(flat []statement) ([]statement, error) {
	stack := [][]statement{nil}
	for _, s := range flat {
		switch s.word {
		case "for":
			stack = append(stack, []statement{s})
		case "end":
			if len(stack) == 1 {
				return nil, fmt.Errorf("%d: end without for", s.line)
			}
			body := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			loop := body[0]
			loop.block = body[1:]
			stack[len(stack)-1] = append(stack[len(stack)-1], loop)
		default:
			stack[len(stack)-1] = append(stack[len(stack)-1], s)
		}
	}
	if len(stack) > 1 {
		return nil, fmt.Errorf("%d: for without end", stack[1][0].line)
	}
	return stack[0], nil
}

// variable is $NAME, with a path into its value.
var variable = regexp.MustCompile(`\$([A-Za-z][A-Za-z0-9]*)((?:\.[A-Za-z][A-Za-z0-9]*|\[\d+\])*)`)

const (
	rulesA = `[{"ruleId":"main","rego":{}}],"modules":{"authz.rego":"package envoy.authz\ndefault allow := false\nallow if input.attributes.request.http.method == \"GET\""}`
	rulesB = `[{"ruleId":"main","rego":{}}],"modules":{"authz.rego":"package envoy.authz\ndefault allow := false\nallow if input.attributes.request.http.method == \"POST\""}`
)

var splices = strings.NewReplacer("RULES_A", rulesA, "RULES_B", rulesB)

// lookup returns the value of a variable with a path into it.
func (r *row) lookup(name, path string) any {
	value, ok := r.variables[name]
	if name == "NOW" {
		value, ok = r.clock.now().UTC().Format(time.RFC3339Nano), true
	}
	if !ok {
		r.fatalf("the variable $%s is not known", name)
	}
	if path == "" {
		return value
	}
	found, ok := dig(value, path)
	if !ok {
		r.fatalf("$%s has no %s", name, path)
	}
	return found
}

// expand replaces the variables in a text.
func (r *row) expand(text string, write func(any) string) string {
	return variable.ReplaceAllStringFunc(text, func(found string) string {
		m := variable.FindStringSubmatch(found)
		return write(r.lookup(m[1], m[2]))
	})
}

// plain writes a value as it is in a text.
func plain(value any) string {
	if s, ok := value.(string); ok {
		return s
	}
	out, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

func asJSON(value any) string {
	out, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// insideString writes a value for a place between two quotes of JSON.
func insideString(value any) string {
	quoted := asJSON(plain(value))
	return quoted[1 : len(quoted)-1]
}

// body expands a JSON body: splices, then variables by where they stand.
func (r *row) body(text string) string {
	text = splices.Replace(text)
	var out strings.Builder
	inString := false
	for len(text) > 0 {
		if at := variable.FindStringIndex(text); at != nil && at[0] == 0 {
			write := asJSON
			if inString {
				write = insideString
			}
			out.WriteString(r.expand(text[:at[1]], write))
			text = text[at[1]:]
			continue
		}
		n := 1
		if text[0] == '\\' && len(text) > 1 {
			n = 2
		} else if text[0] == '"' {
			inString = !inString
		}
		out.WriteString(text[:n])
		text = text[n:]
	}
	return out.String()
}

// bodyStart is where the body of a call begins behind its URL. Only where a body is
// usual may it be a variable: a filter may have one too.
var (
	bodyStart    = regexp.MustCompile(`\s+[{\[@]`)
	anyBodyStart = regexp.MustCompile(`\s+[{\[@$]`)
)

// call splits the rest of a call into its URL and body.
func (r *row) call(method, rest string) (target string, body *string) {
	start := anyBodyStart
	if method == "GET" || method == "DELETE" {
		start = bodyStart
	}
	target = rest
	if at := start.FindStringIndex(rest); at != nil {
		text := r.content(strings.TrimSpace(rest[at[0]:]))
		target, body = rest[:at[0]], &text
	}
	path, query, found := strings.Cut(target, "?")
	target = r.expand(path, plain)
	if found {
		target += "?" + r.expand(query, func(v any) string { return url.QueryEscape(plain(v)) })
	}
	return escapeIllegal(target), body
}

// content returns a body: a file, a variable that holds a text, or JSON.
func (r *row) content(text string) string {
	if name, isFile := strings.CutPrefix(text, "@"); isFile {
		content, ok := r.script.files[name]
		if !ok {
			r.fatalf("there is no file %s", name)
		}
		return content
	}
	if m := variable.FindStringSubmatch(text); m != nil && m[0] == text {
		return splices.Replace(plain(r.lookup(m[1], m[2])))
	}
	return r.body(text)
}

// escapeIllegal percent-encodes what cannot stand in a URL and leaves the rest as
// it is, so that a script may write escapes of its own.
func escapeIllegal(target string) string {
	var out strings.Builder
	for i := range len(target) {
		if c := target[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"<>`{}|\\^", c) >= 0 {
			fmt.Fprintf(&out, "%%%02X", c)
		} else {
			out.WriteByte(c)
		}
	}
	return out.String()
}

var step = regexp.MustCompile("^(?:\\.([A-Za-z_@][A-Za-z0-9_]*)|\\[(\\d+)\\]|\\[\"([^\"]*)\"\\])")

// dig follows a path such as .a.b[0]["c d"] into decoded JSON.
func dig(value any, path string) (any, bool) {
	for path != "" && path != "." {
		m := step.FindStringSubmatch(path)
		if m == nil {
			return nil, false
		}
		path = path[len(m[0]):]
		if m[2] != "" {
			list, _ := value.([]any)
			i := 0
			if _, err := fmt.Sscan(m[2], &i); err != nil || i >= len(list) {
				return nil, false
			}
			value = list[i]
			continue
		}
		object, _ := value.(map[string]any)
		next, ok := object[m[1]+m[3]]
		if !ok {
			return nil, false
		}
		value = next
	}
	return value, true
}
