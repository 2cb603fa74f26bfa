package table_test

import (
	"regexp"
	"strconv"
	"strings"
)

// withRows replaces each "$rows": {"count": N, "key": K, "value": V} by N members of its object, of
// which the text of the keys and values has the number of the row. Members that are there stay.
func withRows(v any) any {
	object, ok := v.(map[string]any)
	if !ok {
		return v
	}
	rows, _ := object["$rows"].(map[string]any)
	delete(object, "$rows")
	for name, value := range object {
		object[name] = withRows(value)
	}
	count, _ := rows["count"].(float64)
	for n := range int(count) {
		key := numbered(rows["key"], n).(string)
		if _, there := object[key]; !there {
			object[key] = numbered(rows["value"], n)
		}
	}
	return object
}

// placeholder is {n}, or {n%12}.
var placeholder = regexp.MustCompile(`\{n(?:%(\d+))?\}`)

// numbered returns a value with a number in its texts.
func numbered(v any, n int) any {
	switch v := v.(type) {
	case string:
		return placeholder.ReplaceAllStringFunc(v, func(p string) string {
			if modulus := placeholder.FindStringSubmatch(p)[1]; modulus != "" {
				m, _ := strconv.Atoi(modulus)
				return strconv.Itoa(n % m)
			}
			return strconv.Itoa(n)
		})
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			out[name] = numbered(member, n)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, element := range v {
			out[i] = numbered(element, n)
		}
		return out
	}
	return v
}

// numbers is {0..9}.
var numbers = regexp.MustCompile(`\{(\d+)\.\.(\d+)\}`)

// ranged returns a text once for each of the numbers that are in it, or as it is.
func ranged(text string) (out []string) {
	bounds := numbers.FindStringSubmatch(text)
	if bounds == nil {
		return []string{text}
	}
	from, _ := strconv.Atoi(bounds[1])
	to, _ := strconv.Atoi(bounds[2])
	for n := from; n <= to; n++ {
		out = append(out, strings.ReplaceAll(text, bounds[0], strconv.Itoa(n)))
	}
	return out
}
