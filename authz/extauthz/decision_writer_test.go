package extauthz_test

import (
	"fmt"
	"strings"
)

// fieldNames are the fields of an object decision, as the specification's table has
// them, next to `allowed`.
var fieldNames = []string{
	"headers", "response_headers_to_add", "request_headers_to_remove", "query_parameters_to_set", "query_parameters_to_remove",
	"body", "http_status", "dynamic_metadata",
}

// decision writes the value of a rule: a boolean, an object, seldom what is neither.
func (w *policyWriter) decision() string {
	switch n := w.r.IntN(20); {
	case n < 4:
		return w.oneOf("true", "true", "false")
	case n == 4:
		return w.any(1)
	}
	return w.object()
}

// object writes an object decision, with about a third of the fields.
func (w *policyWriter) object() string {
	var out []string
	switch n := w.r.IntN(20); {
	case n == 0: // no allowed
	case n == 1:
		out = append(out, `"allowed": `+w.any(0))
	case n < 6:
		out = append(out, `"allowed": (`+w.oneOf(`"admin" in roles`, `count(input.parsed_path) > 1`, `header("x-user") == "alice"`)+")")
	default:
		out = append(out, `"allowed": `+w.oneOf("true", "false"))
	}
	for _, name := range fieldNames {
		if w.sometimes(3) {
			out = append(out, fmt.Sprintf("%q: %s", name, w.field(name)))
		}
	}
	if w.sometimes(10) {
		out = append(out, `"a field that is not in the table": `+w.any(1))
	}
	return "{" + strings.Join(out, ", ") + "}"
}

// field writes the value of a field, seldom of the wrong type.
func (w *policyWriter) field(name string) string {
	if w.sometimes(40) {
		return w.any(1)
	}
	switch name {
	case "headers", "response_headers_to_add":
		return w.headers()
	case "request_headers_to_remove":
		return w.names(headerNames)
	case "query_parameters_to_set":
		return w.fields(queryNames)
	case "query_parameters_to_remove":
		return w.names(queryNames)
	case "body":
		return w.text(2)
	case "http_status":
		return w.status()
	}
	return w.metadata()
}

// headerNames and queryNames are as they come; the ones at the end are seldom used
// and make a header of an attacker's choice, or none.
var (
	headerNames = []string{`"x-user"`, `"X-User"`, `"X-USER"`, `"x-role"`, `"set-cookie"`, `":path"`, `":status"`, `"a b"`, `""`, `"x\n"`}
	queryNames  = []string{`"a"`, `"tenant"`, `"a b"`, `"c=d"`, `"é"`, `"%41"`, `"A"`, `"#<"`, `""`, `"\u0000"`}
)

// name picks a name, one of the last four seldom, and seldom one from the request.
func (w *policyWriter) name(names []string) string {
	switch {
	case w.sometimes(20):
		return w.text(1)
	case w.sometimes(20):
		return names[w.r.IntN(len(names))]
	}
	return names[w.r.IntN(len(names)-4)]
}

func (w *policyWriter) names(names []string) string {
	switch w.r.IntN(8) {
	case 0:
		return "[]"
	case 1: // a set is an array
		return fmt.Sprintf("{%s, %s}", w.name(names), w.name(names))
	case 2:
		return w.texts()
	}
	return fmt.Sprintf("[%s, %s]", w.name(names), w.name(names))
}

// headers writes an object of headers, or an array of such objects.
func (w *policyWriter) headers() string {
	switch w.r.IntN(6) {
	case 0:
		return fmt.Sprintf("[%s, %s]", w.fields(headerNames), w.fields(headerNames))
	case 1:
		return w.oneOf("[]", "{}", "[{}]", `[{}, {"x-a": []}]`)
	}
	return w.fields(headerNames)
}

// fields writes an object whose values are strings or arrays of strings.
func (w *policyWriter) fields(names []string) string {
	var out []string
	for range w.r.IntN(6) {
		value := w.headerText()
		switch {
		case w.sometimes(4):
			value = fmt.Sprintf("[%s, %s]", w.headerText(), w.headerText())
		case w.sometimes(12):
			value = w.texts()
		case w.sometimes(40):
			value = w.any(1)
		}
		out = append(out, w.name(names)+": "+value)
	}
	return "{" + strings.Join(out, ", ") + "}"
}

func (w *policyWriter) headerText() string { return w.text(w.r.IntN(3)) }

func (w *policyWriter) status() string {
	if w.sometimes(8) {
		return w.oneOf("418", "0", "-1", "999", "100", "403.5", "403.0", "4.03e2", "1e30", `"403"`, "data.numbers.teapot", `to_number(header("x-limit"))`)
	}
	return w.oneOf("401", "403", "404", "429", "503", "200", "400 + 1", "data.numbers.gone", "302", "226", "431")
}

func (w *policyWriter) metadata() string {
	switch w.r.IntN(15) {
	case 0:
		return `{"decision_id": "forged", "failure": "forged", "reason": "forged"}`
	case 1: // deeper than what Envoy reads
		depth := 28 + w.r.IntN(4) // the object is a level too, and 30 are allowed
		return `{"x": ` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + "}"
	case 2:
		return `{"n": 1e400}`
	case 3:
		return w.oneOf("claims", "data.numbers", "input", "{}", "input.version")
	}
	return fmt.Sprintf(`{"user": %s, "v": %s, %s: %s}`, w.text(1), w.any(2), w.text(0), w.any(1))
}
