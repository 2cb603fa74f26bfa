package bounds

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/util"
)

const (
	// maxSchema bounds a schema, in values.
	maxSchema = 5000
	// maxMatched bounds the work of matching a document with a schema.
	maxMatched = 50_000
	// maxReferences is how many schemas may follow from one another for one value.
	maxReferences = 200
)

var _ = []struct{}{
	bind(maxMatched, "checks of a value", func(o []*ast.Term) int { return matched(o[1], o[0]) }, "json.match_schema"),
	bind(maxMatched, "checks of a value", func(o []*ast.Term) int { return matched(o[0], ast.NullTerm()) }, "json.verify_schema"),
}

// matched is about how often a value of the document is checked by a part of the schema.
// A schema that refers to itself for one and the same value would never end: OPA follows
// it until the stack is full, which ends the process. One that refers to itself twice
// takes twice as long for each level of the document.
func matched(schema, document *ast.Term) int {
	if size([]*ast.Term{schema}) > maxSchema || size([]*ast.Term{document}) > maxMatched {
		return maxMatched + 1
	}
	root, ok1 := documentOf(schema)
	value, ok2 := documentOf(document)
	if !ok1 || !ok2 {
		return 0 // it is refused as soon as it is parsed
	}
	m := &matching{nodes: make(map[string]any)}
	m.collect(root, "")
	if m.checks <= maxMatched {
		m.check("", value, 0)
	}
	return m.checks
}

// documentOf returns an operand in the types of encoding/json: a JSON text or a
// document. OPA's functions take either.
func documentOf(t *ast.Term) (out any, ok bool) {
	if s, isText := t.Value.(ast.String); isText {
		return out, util.UnmarshalJSON([]byte(s), &out) == nil
	}
	out, err := ast.JSON(t.Value)
	return out, err == nil
}

// matching walks a document and a schema together. Where it depends on the document which
// parts of the schema check a value, it takes all of them.
type matching struct {
	// nodes :: JSON pointer → schema, or what may be one.
	nodes map[string]any
	// named are the pointers of schemas that a reference without a pointer may mean.
	named  []string
	checks int
}

// collect notes every part of the schema by its pointer, whether it is a schema or not:
// what a reference may name is known only when it is followed.
func (m *matching) collect(v any, pointer string) {
	m.nodes[pointer] = v
	switch v := v.(type) {
	case map[string]any:
		if v["$id"] != nil || v["id"] != nil {
			m.named = append(m.named, pointer)
		}
		if pattern, ok := v["pattern"].(string); ok {
			m.match(pattern, 0)
		}
		if patterns, ok := v["patternProperties"].(map[string]any); ok {
			for pattern := range patterns {
				m.match(pattern, 0)
			}
		}
		for key, child := range v {
			m.collect(child, below(pointer, key))
		}
	case []any:
		for i, child := range v {
			m.collect(child, below(pointer, strconv.Itoa(i)))
		}
	}
}

// check counts the checks of one value by the schema at a pointer. References is how many
// schemas for the same value led here.
func (m *matching) check(pointer string, value any, references int) {
	schema, ok := m.nodes[pointer].(map[string]any)
	if m.checks++; !ok || m.checks > maxMatched {
		return
	}
	if references > maxReferences {
		m.checks = maxMatched + 1
		return
	}
	for _, next := range m.sameValue(schema, pointer) {
		m.check(next, value, references+1)
	}
	switch v := value.(type) {
	case string:
		if pattern, ok := schema["pattern"].(string); ok {
			m.match(pattern, len(v))
		}
		if schema["format"] == "regex" {
			m.match(v, 0)
		}
	case map[string]any:
		for name, child := range v {
			if patterns, ok := schema["patternProperties"].(map[string]any); ok {
				for pattern := range patterns {
					m.match(pattern, len(name))
				}
			}
			for _, next := range m.below(schema, pointer, "properties", name) {
				m.check(next, child, 0)
			}
		}
	case []any:
		for i, child := range v {
			for _, next := range m.below(schema, pointer, "items", strconv.Itoa(i)) {
				m.check(next, child, 0)
			}
		}
	}
}

// match counts what it costs to match a regular expression with so much text.
func (m *matching) match(pattern string, text int) {
	m.checks += stepsToMatch(pattern, text) / (maxSteps / maxMatched)
}

// sameValue returns the schemas that check the same value as one does.
func (m *matching) sameValue(schema map[string]any, pointer string) (out []string) {
	if ref, ok := schema["$ref"].(string); ok {
		out = append(out, m.targets(ref)...)
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf", "extends"} {
		if list, ok := schema[keyword].([]any); ok {
			for i := range list {
				out = append(out, below(pointer, keyword, strconv.Itoa(i)))
			}
		}
	}
	for _, keyword := range []string{"not", "if", "then", "else", "extends"} {
		if _, ok := schema[keyword].(map[string]any); ok {
			out = append(out, below(pointer, keyword))
		}
	}
	if dependencies, ok := schema["dependencies"].(map[string]any); ok {
		for name := range dependencies {
			out = append(out, below(pointer, "dependencies", name))
		}
	}
	return out
}

// below returns the schemas that may check a field or an element of the value.
func (m *matching) below(schema map[string]any, pointer, keyword, name string) (out []string) {
	add := func(candidate string) {
		if _, ok := m.nodes[candidate].(map[string]any); ok {
			out = append(out, candidate)
		}
	}
	add(below(pointer, keyword, name))
	if keyword == "items" {
		add(below(pointer, "items"))
		add(below(pointer, "contains"))
		add(below(pointer, "additionalItems"))
		return out
	}
	add(below(pointer, "additionalProperties"))
	if patterns, ok := schema["patternProperties"].(map[string]any); ok {
		for pattern := range patterns {
			add(below(pointer, "patternProperties", pattern))
		}
	}
	return out
}

// targets returns what a reference may mean: one schema by its pointer, or each that has a
// name.
func (m *matching) targets(ref string) []string {
	if pointer, ok := strings.CutPrefix(ref, "#"); ok && (pointer == "" || pointer[0] == '/') {
		if plain, err := url.PathUnescape(pointer); err == nil {
			pointer = plain
		}
		return []string{pointer}
	}
	return m.named
}

// below returns a JSON pointer.
func below(pointer string, names ...string) string {
	for _, name := range names {
		pointer += "/" + strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
	}
	return pointer
}
