package resourcefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// A resource in YAML is turned into JSON node by node: decoding it into a map would
// compare every pair of keys of an object, and would make a time of a date. What comes
// out is what OPA reads of a data.yaml, but that a key which is there twice is refused.

// yamlDocument parses the only document of a file.
func yamlDocument(content []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var document, next yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil, errEmpty
	} else if err != nil {
		return nil, fmt.Errorf("it is neither YAML nor JSON: %w", err)
	}
	switch err := decoder.Decode(&next); {
	case errors.Is(err, io.EOF):
		return &document, nil
	case err != nil:
		return nil, fmt.Errorf("what stands behind the first document is not YAML; a file has one resource: %w", err)
	case isNothing(next.Content[0]):
		return &document, nil
	}
	return nil, fmt.Errorf("line %d: another document begins here; a file has one resource, so apply them one by one", next.Content[0].Line)
}

// isNothing reports whether a document is empty, as one behind a last --- is.
func isNothing(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null" && node.Value == ""
}

// maxExpansion is what the aliases of a file may expand to, in bytes, next to what JSON
// needs to write the file without them.
const maxExpansion = 16 << 20

// yamlToJSON writes a document of so many bytes as JSON.
func yamlToJSON(document *yaml.Node, size int) ([]byte, error) {
	w := yamlWriter{limit: maxExpansion + 8*size, aliases: make(map[*yaml.Node]bool)}
	if err := w.value("", document.Content[0]); err != nil {
		return nil, err
	}
	return w.out.Bytes(), nil
}

// yamlWriter writes a document as JSON, and stops when it gets too large.
type yamlWriter struct {
	// out is what is written, limit its largest size in bytes.
	out   bytes.Buffer
	limit int
	// aliases are those that are being expanded: one within itself has no end.
	aliases map[*yaml.Node]bool
}

// value writes a node, whose path is for errors.
func (w *yamlWriter) value(path string, node *yaml.Node) error {
	if w.out.Len() > w.limit {
		return fmt.Errorf("line %d: %s: the aliases of the file expand to more than %d MiB", node.Line, shownPath(path), w.limit>>20)
	}
	switch node.Kind {
	case yaml.AliasNode:
		return w.alias(path, node)
	case yaml.MappingNode:
		return w.object(path, node)
	case yaml.SequenceNode:
		return w.list(path, node)
	}
	return w.scalar(path, node)
}

// alias writes what an alias stands for, in its place: JSON has none.
func (w *yamlWriter) alias(path string, node *yaml.Node) error {
	if w.aliases[node.Alias] {
		return fmt.Errorf("line %d: %s: the alias *%s is within itself", node.Line, shownPath(path), node.Value)
	}
	w.aliases[node.Alias] = true
	defer delete(w.aliases, node.Alias)
	return w.value(path, node.Alias)
}

// list writes a sequence.
func (w *yamlWriter) list(path string, node *yaml.Node) error {
	w.out.WriteByte('[')
	for i, element := range node.Content {
		if i > 0 {
			w.out.WriteByte(',')
		}
		if err := w.value(fmt.Sprintf("%s[%d]", path, i), element); err != nil {
			return err
		}
	}
	w.out.WriteByte(']')
	return nil
}

// object writes a mapping, with the members that are merged into it.
func (w *yamlWriter) object(path string, node *yaml.Node) error {
	members, err := membersOf(path, node, 0)
	if err != nil {
		return err
	}
	w.out.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			w.out.WriteByte(',')
		}
		if err := w.encode(path, node, m.key); err != nil {
			return err
		}
		w.out.WriteByte(':')
		if err := w.value(joined(path, m.key), m.value); err != nil {
			return err
		}
	}
	w.out.WriteByte('}')
	return nil
}

// scalar writes a value as the parser resolves it; a date is a text.
func (w *yamlWriter) scalar(path string, node *yaml.Node) error {
	switch tag := node.ShortTag(); {
	case tag == "!!str" || tag == "!!timestamp":
		return w.encode(path, node, node.Value)
	case tag == "!!int" && plainInteger.MatchString(node.Value):
		w.out.WriteString(node.Value)
		return nil
	}
	var value any
	if err := node.Decode(&value); err != nil {
		return fmt.Errorf("line %d: %s: %w", node.Line, shownPath(path), err)
	}
	return w.encode(path, node, value)
}

// plainInteger is an integer that JSON writes in the same way, and that every reader keeps.
var plainInteger = regexp.MustCompile(`^(0|-?[1-9][0-9]{0,14})$`)

// encode writes a value. What JSON cannot say is refused with its line.
func (w *yamlWriter) encode(path string, node *yaml.Node, value any) error {
	if f, ok := value.(float64); ok && (math.IsInf(f, 0) || math.IsNaN(f)) {
		return fmt.Errorf("line %d: %s: JSON, and so a policy, has no number %s; write it as a string", node.Line, shownPath(path), node.Value)
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("line %d: %s: %w", node.Line, shownPath(path), err)
	}
	w.out.Write(encoded)
	return nil
}

// yamlMember is a key of an object and its value.
type yamlMember struct {
	// key is as JSON has it.
	key string
	// value is not expanded yet, if it is an alias.
	value *yaml.Node
}

// maxMerges bounds how deep objects are merged (<<), so that none is merged into itself.
const maxMerges = 100

// membersOf returns the members of an object, with those that are merged into it: a key
// of its own goes before, and of two merged objects the first.
func membersOf(path string, node *yaml.Node, depth int) ([]yamlMember, error) {
	if depth > maxMerges {
		return nil, fmt.Errorf("line %d: %s: objects are merged more than %d deep", node.Line, shownPath(path), maxMerges)
	}
	out := make([]yamlMember, 0, len(node.Content)/2)
	lines := make(map[string]int, len(node.Content)/2)
	var merged []*yaml.Node
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge" {
			merged = append(merged, value)
			continue
		}
		text, err := keyOf(path, key)
		if err != nil {
			return nil, err
		}
		if line, there := lines[text]; there {
			return nil, fmt.Errorf("line %d: %s: it is there twice; the first one is in line %d", key.Line, joined(path, text), line)
		}
		lines[text] = key.Line
		out = append(out, yamlMember{text, value})
	}
	for _, from := range merged {
		more, err := mergedMembers(path, from, depth)
		if err != nil {
			return nil, err
		}
		for _, m := range more {
			if _, there := lines[m.key]; !there {
				lines[m.key] = from.Line
				out = append(out, m)
			}
		}
	}
	return out, nil
}

// mergedMembers returns the members of what stands behind <<: an object, or a list of
// objects.
func mergedMembers(path string, node *yaml.Node, depth int) ([]yamlMember, error) {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	switch node.Kind {
	case yaml.MappingNode:
		return membersOf(path, node, depth+1)
	case yaml.SequenceNode:
		var out []yamlMember
		for _, element := range node.Content {
			more, err := mergedMembers(path, element, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		}
		return out, nil
	}
	return nil, fmt.Errorf("line %d: %s: what << merges is an object, or a list of objects", node.Line, shownPath(path))
}

// keyOf returns a key as text: JSON has no other keys.
func keyOf(path string, node *yaml.Node) (string, error) {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if tag := node.ShortTag(); node.Kind == yaml.ScalarNode && (tag == "!!str" || tag == "!!timestamp") {
		return node.Value, nil
	}
	var value any
	if node.Kind == yaml.ScalarNode {
		if err := node.Decode(&value); err != nil {
			return "", fmt.Errorf("line %d: %s: %w", node.Line, shownPath(path), err)
		}
	}
	switch v := value.(type) {
	case string:
		return v, nil
	case int, int64, uint64, bool:
		return fmt.Sprint(v), nil
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 32), nil
	}
	return "", fmt.Errorf("line %d: %s: a key is text or a number; write it between quotes", node.Line, shownPath(path))
}
