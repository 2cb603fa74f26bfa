package resourcefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"understudy/admin/content"
)

// parentOf names what a field is in.
func parentOf(path string) string {
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		return path[:i]
	}
	return "it"
}

// at is an error of a place in the file that the user wrote.
func (r *Resource) at(path string, err error) error {
	if path == "" || errors.As(err, new(*content.InexactNumber)) {
		return r.atLine(path, err)
	}
	return r.atLine(path, fmt.Errorf("%s: %w", path, err))
}

// atLine is at of an error that names the field.
func (r *Resource) atLine(path string, err error) error {
	if line := r.line(path); line > 0 {
		return fmt.Errorf("line %d: %w", line, err)
	}
	return err
}

// shownPath names a place for people; the document itself has no path.
func shownPath(path string) string {
	if path == "" {
		return "the file"
	}
	return path
}

// line returns the line of a path in the file; 0 if it is not known.
func (r *Resource) line(path string) int {
	var document yaml.Node
	if yaml.Unmarshal(r.text, &document) != nil || len(document.Content) == 0 {
		return 0
	}
	return lineOf(document.Content[0], "", path)
}

// lineOf looks for a path below a node whose path is at.
func lineOf(node *yaml.Node, at, path string) int {
	if at == path {
		return node.Line
	}
	for i, child := range node.Content {
		below, line := fmt.Sprintf("%s[%d]", at, i), child.Line
		if node.Kind == yaml.MappingNode {
			if i%2 == 0 {
				continue
			}
			below, line = joined(at, node.Content[i-1].Value), node.Content[i-1].Line
		}
		if below == path {
			return line
		}
		if strings.HasPrefix(path, below) {
			if line := lineOf(child, below, path); line > 0 {
				return line
			}
		}
	}
	return 0
}

// pathAt returns the path of the value at a place in a JSON text, as protojson names it:
// line and column count from 1, the column in characters.
//
// protojson names a place in the JSON, which for a file in YAML nobody has seen: the path
// is what both have in common.
func pathAt(text []byte, line, column string) string {
	l, errLine := strconv.Atoi(line)
	c, errColumn := strconv.Atoi(column)
	if errLine != nil || errColumn != nil {
		return ""
	}
	start := 0
	for ; l > 1; l-- {
		start += bytes.IndexByte(text[start:], '\n') + 1
	}
	offset := start + len(string([]rune(string(text[start:]))[:c-1]))
	path, _ := walkTo(json.NewDecoder(bytes.NewReader(text)), "", int64(offset))
	return path
}

// walkTo reads one value and returns the path of what ends behind the offset first.
func walkTo(d *json.Decoder, path string, offset int64) (string, bool) {
	token, err := d.Token()
	if err != nil || d.InputOffset() > offset {
		return path, true
	}
	open, ok := token.(json.Delim)
	if !ok {
		return path, false
	}
	for i := 0; d.More(); i++ {
		below := fmt.Sprintf("%s[%d]", path, i)
		if open == '{' {
			key, err := d.Token()
			name, _ := key.(string)
			below = joined(path, name)
			if err != nil || d.InputOffset() > offset {
				return below, true
			}
		}
		if found, ok := walkTo(d, below, offset); ok {
			return found, true
		}
	}
	_, err = d.Token()
	return path, err != nil && !errors.Is(err, io.EOF)
}

// joined is the path of a field.
func joined(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
