package bounds

import (
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
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

// schemaChecked calls a built-in for schemas if it is known before that it comes to an end, and that the schema
// refers to no file of the server. What does not parse is refused as soon as it is parsed, by OPA's function.
func schemaChecked(name string, of func(operands []*ast.Term) (schema, document *ast.Term)) func(topdown.BuiltinFunc) topdown.BuiltinFunc {
	return func(original topdown.BuiltinFunc) topdown.BuiltinFunc {
		return func(bctx topdown.BuiltinContext, operands []*ast.Term, iter func(*ast.Term) error) error {
			switch checks, err := matched(of(operands)); {
			case err != nil:
				return err
			case checks > maxMatched:
				return exceeded(bctx, name, maxMatched, "checks of a value")
			}
			return original(bctx, operands, iter)
		}
	}
}

// errOutsideReference: OPA's capabilities keep the built-ins off the network, but they would read a file: from the
// disk of the server, and the schema may come from a request.
var errOutsideReference = errors.New("a schema may refer only to itself and to the published meta-schemas")

// matched is about how often a value of the document is checked by a part of the schema.
// A schema that refers to itself for one and the same value would never end: OPA follows
// it until the stack is full, which ends the process. One that refers to itself twice
// takes twice as long for each level of the document.
func matched(schema, document *ast.Term) (checks int, err error) {
	if size([]*ast.Term{schema}) > maxSchema || size([]*ast.Term{document}) > maxMatched {
		return maxMatched + 1, nil
	}
	root, ok1 := documentOf(schema)
	value, ok2 := documentOf(document)
	if !ok1 || !ok2 {
		return 0, nil
	}
	m := &schemaWalk{parts: make(map[string]any)}
	m.collect(root, "")
	if m.outside {
		return 0, errOutsideReference
	}
	m.check(root, value, 0)
	return m.checks, nil
}

// documentOf returns an operand in the types of encoding/json: a JSON text or a
// document. OPA's functions take either.
func documentOf(t *ast.Term) (out any, ok bool) {
	if s, isText := t.Value.(ast.String); isText {
		err := util.UnmarshalJSON([]byte(s), &out)
		return out, err == nil
	}
	out, err := ast.JSON(t.Value)
	return out, err == nil
}

// schemaWalk walks a document and a schema together. Where it depends on the document which
// parts of the schema check a value, it takes all of them.
type schemaWalk struct {
	// parts :: JSON pointer → part of the schema, whether that is a schema or not: what a reference names is
	// known only when it is followed.
	parts map[string]any
	// named are those that a reference without a pointer may mean.
	named  []any
	checks int
	// outside says that something refers to a file.
	outside bool
}

// collect notes every part of the schema by its pointer.
func (m *schemaWalk) collect(part any, pointer string) {
	m.parts[pointer] = part
	switch v := part.(type) {
	case map[string]any:
		if v["$id"] != nil || v["id"] != nil {
			m.named = append(m.named, v)
		}
		// The last two set the base which a relative reference is resolved by ($id; id before draft 6).
		for _, key := range []string{"$ref", "$id", "id"} {
			reference, ok := v[key].(string)
			m.outside = m.outside || ok && hasFileScheme(reference)
		}
		if pattern, ok := v["pattern"].(string); ok {
			m.match(pattern, 0)
		}
		for pattern := range fieldsOf(v["patternProperties"]) {
			m.match(pattern, 0)
		}
		for key, child := range v {
			m.collect(child, pointer+"/"+strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1"))
		}
	case []any:
		for i, child := range v {
			m.collect(child, pointer+"/"+strconv.Itoa(i))
		}
	}
}

// hasFileScheme is true for what cannot be parsed as well: who knows what another
// parser makes of it.
func hasFileScheme(reference string) bool {
	u, err := url.Parse(strings.TrimSpace(reference))
	return err != nil || strings.EqualFold(u.Scheme, "file")
}

// fieldsOf returns the fields of an object; none of anything else.
func fieldsOf(v any) map[string]any {
	fields, _ := v.(map[string]any)
	return fields
}

// check counts the checks of one value by what may be a schema. References is how many
// schemas for the same value led here.
func (m *schemaWalk) check(part, value any, references int) {
	schema, ok := part.(map[string]any)
	if !ok || m.checks > maxMatched {
		return
	}
	m.checks++
	if references > maxReferences {
		m.checks = maxMatched + 1
		return
	}
	for _, next := range m.sameValue(schema) {
		m.check(next, value, references+1)
	}
	switch v := value.(type) {
	case string:
		m.text(schema, v)
	case map[string]any:
		for name, child := range v {
			m.field(schema, name, child)
		}
	case []any:
		m.elements(schema, v)
	}
}

// text counts the checks of a text by a schema.
func (m *schemaWalk) text(schema map[string]any, text string) {
	if pattern, ok := schema["pattern"].(string); ok {
		m.match(pattern, len(text))
	}
	if schema["format"] == "regex" {
		m.match(text, 0)
	}
}

// field counts the checks of a field of an object by the parts of its schema.
func (m *schemaWalk) field(schema map[string]any, name string, value any) {
	for pattern, next := range fieldsOf(schema["patternProperties"]) {
		m.match(pattern, len(name))
		m.check(next, value, 0)
	}
	m.check(fieldsOf(schema["properties"])[name], value, 0)
	m.check(schema["additionalProperties"], value, 0)
}

// elements counts the checks of the elements of an array by the parts of its schema.
func (m *schemaWalk) elements(schema map[string]any, values []any) {
	list, _ := schema["items"].([]any)
	for i, value := range values {
		if i < len(list) {
			m.check(list[i], value, 0)
		}
		for _, keyword := range []string{"items", "contains", "additionalItems"} {
			m.check(schema[keyword], value, 0)
		}
	}
}

// match counts what it costs to match a regular expression with so much text.
func (m *schemaWalk) match(pattern string, text int) {
	m.checks += stepsToMatch(pattern, text) / (maxSteps / maxMatched)
}

// sameValue returns the schemas that check the same value as one does.
func (m *schemaWalk) sameValue(schema map[string]any) (out []any) {
	if ref, ok := schema["$ref"].(string); ok {
		out = m.targets(ref)
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "extends"} {
		if list, ok := schema[keyword].([]any); ok {
			out = append(out, list...)
		} else {
			out = append(out, schema[keyword])
		}
	}
	return slices.AppendSeq(out, maps.Values(fieldsOf(schema["dependencies"])))
}

// targets returns what a reference may mean: one part by its pointer, or each that has a
// name.
func (m *schemaWalk) targets(ref string) []any {
	if pointer, ok := strings.CutPrefix(ref, "#"); ok && (pointer == "" || pointer[0] == '/') {
		if plain, err := url.PathUnescape(pointer); err == nil {
			pointer = plain
		}
		return []any{m.parts[pointer]}
	}
	return slices.Clone(m.named)
}
