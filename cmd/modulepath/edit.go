package main

import (
	"bytes"
	"go/format"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/modfile"
)

// editModule renames modules in a go.mod, wherever a directive names one.
func (c change) editModule(name string, content []byte) ([]byte, error) {
	file, err := modfile.Parse(name, content, nil)
	if err != nil {
		return nil, err
	}
	changed := false
	for _, statement := range file.Syntax.Stmt {
		switch s := statement.(type) {
		case *modfile.Line:
			changed = c.editTokens(s) || changed
		case *modfile.LineBlock:
			for _, line := range s.Line {
				changed = c.editTokens(line) || changed
			}
		}
	}
	if !changed {
		return content, nil
	}
	file.SortBlocks() // as `go mod tidy` does
	return modfile.Format(file.Syntax), nil
}

func (c change) editTokens(line *modfile.Line) (changed bool) {
	for i, token := range line.Token {
		if path, ours := c.path(token); ours {
			line.Token[i], changed = path, true
		}
	}
	return changed
}

// editProto renames the Go package of a proto. Its own package, and the path by which other
// protos import it, are not those of Go and stay.
func (c change) editProto(content []byte) []byte {
	option := regexp.MustCompile(`(?m)^(option go_package = ")` + regexp.QuoteMeta(c.from) + `([/;"])`)
	return option.ReplaceAll(content, []byte("${1}"+c.to+"${2}"))
}

// replacement is a new text for a part of a file.
type replacement struct {
	from, to int
	text     string
}

// editGo renames the packages that a file imports, and those that its comments link to.
// Other texts stay: they name metrics and traces, not packages.
func (c change) editGo(name string, content []byte) ([]byte, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var edits []replacement
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		if path, ours := c.path(imported); ours {
			edits = append(edits, replacement{set.Position(spec.Path.Pos()).Offset, set.Position(spec.Path.End()).Offset, strconv.Quote(path)})
		}
	}
	link := []byte("[" + c.from + "/")
	for _, group := range file.Comments {
		from, to := set.Position(group.Pos()).Offset, set.Position(group.End()).Offset
		if text := content[from:to]; bytes.Contains(text, link) {
			edits = append(edits, replacement{from, to, string(bytes.ReplaceAll(text, link, []byte("["+c.to+"/")))})
		}
	}
	if len(edits) == 0 {
		return content, nil
	}
	after := apply(content, edits)
	if strings.HasSuffix(name, ".pb.go") || strings.HasSuffix(name, ".pb.gw.go") {
		return after, nil // the generator does not sort imports
	}
	return format.Source(after)
}

// apply returns a file with all replacements, which do not overlap.
func apply(content []byte, edits []replacement) []byte {
	slices.SortFunc(edits, func(a, b replacement) int { return a.from - b.from })
	var out bytes.Buffer
	at := 0
	for _, e := range edits {
		out.Write(content[at:e.from])
		out.WriteString(e.text)
		at = e.to
	}
	out.Write(content[at:])
	return out.Bytes()
}
