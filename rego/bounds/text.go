package bounds

import (
	"strings"
	"unicode/utf8"

	"github.com/open-policy-agent/opa/v1/ast"
)

const (
	// maxText is the longest text that a built-in makes, in bytes. Reading one several
	// times takes some milliseconds.
	maxText = 4 << 20
	// maxEncoded is the longest text that is encoded or escaped, which makes it up to
	// three times as long.
	maxEncoded = 2 << 20
	// maxYAML is the longest YAML text: each key of a mapping is compared with all others.
	maxYAML = 48 << 10
	// maxCompared bounds work that is the product of two lengths.
	maxCompared = 20_000_000
	// maxIntersections bounds the search for a text that two globs have in common. Each
	// way takes far less than a nanosecond on average: most end at once.
	maxIntersections = 100_000_000

	bytesOfText = "bytes of text"
)

var _ = []struct{}{
	bind(maxText, "bytes of the result", joined, "concat"),
	bind(maxText, "bytes of the result", formatted, "sprintf"),
	bind(maxText, "bytes of the result", replacedText, "replace"),
	bind(maxText, "bytes of the result", replacedMany, "strings.replace_n"),
	bind(maxText, "bytes of the result", interpolated, "internal.template_string"),
	bind(maxEncoded, bytesOfText, text, "base64.encode", "base64url.encode", "base64url.encode_no_pad", "hex.encode",
		"urlquery.encode", "urlquery.decode", "glob.quote_meta", "uri.parse", "uri.is_valid"),
	bind(maxYAML, bytesOfText, yamlText, "yaml.unmarshal", "yaml.is_valid"),
	bind(128<<10, bytesOfText, text, "urlquery.decode_object"),
	bind(64<<10, bytesOfText, text, "semver.compare", "semver.is_valid"),
	bind(4<<10, bytesOfText, text, "rego.parse_module"),
	bind(maxText, bytesOfText, dated, "time.format"),
	bind(1000, bytesOfText, text, "units.parse", "units.parse_bytes"),
	bind(maxValues, "parts", parts, "split", "strings.split_n"),
	bind(maxCompared, "bytes × bytes", trimmed, "trim", "trim_left", "trim_right"),
	bind(maxCompared, "bytes × bytes", found, "indexof"),
	bind(maxCompared, "bytes × bytes", foundAll, "indexof_n"),
	bind(maxCompared, "bytes × bytes", globbed, "glob.match"),
	bind(maxIntersections, "ways to match one glob with the other", intersections, "regex.globs_match"),
	bind(maxValues, "values", decoded, "json.unmarshal"),
}

// length is that of a string, 0 of anything else.
func length(t *ast.Term) int {
	s, _ := t.Value.(ast.String)
	return len(s)
}

func str(t *ast.Term) string {
	s, _ := t.Value.(ast.String)
	return string(s)
}

// text is the length of all operands that are strings. The last may be the result: an
// operand that an expression compares the value with.
func text(operands []*ast.Term) (n int) {
	for _, o := range operands {
		n += length(o)
	}
	return n
}

// deepText is the text of all operands with what is in them.
func deepText(operands []*ast.Term) int { return weighed(operands, maxText).text }

// joined is the length of what concat makes.
func joined(operands []*ast.Term) int {
	total := 0
	switch v := operands[1].Value.(type) {
	case *ast.Array:
		for i := range v.Len() {
			total += length(v.Elem(i))
		}
		total += length(operands[0]) * v.Len()
	case ast.Set:
		for _, element := range v.Slice() {
			total += length(element)
		}
		total += length(operands[0]) * v.Len()
	}
	return total
}

// formatted is at least the length of what sprintf makes. It cannot be exact without
// formatting; each verb gets 400 bytes for whatever a number may become, and what may
// be escaped counts ten times.
func formatted(operands []*ast.Term) int {
	format := str(operands[0])
	args, ok := operands[1].Value.(*ast.Array)
	if !ok {
		return 0
	}
	sum, widest := 0, 0
	for i := range args.Len() {
		n := 0
		switch a := args.Elem(i).Value.(type) {
		case ast.String:
			n = len(a)
		case ast.Number:
			n = len(a)
		case ast.Boolean, ast.Null:
			n = 5
		default:
			n = interpolated([]*ast.Term{args.Elem(i)})
		}
		sum, widest = sum+n, max(widest, n)
		if sum > maxText {
			break
		}
	}
	verbs := strings.Count(format, "%")
	if strings.Contains(format, "[") { // an argument may be used more than once
		sum = verbs * widest
	}
	if strings.ContainsAny(format, "qxXbU+#") { // it may be escaped, or in a smaller base
		sum *= 10
	}
	return len(format) + sum + verbs*(400+widestField(format))
}

// widestField is at least the width and the precision that a format asks for together. The
// package fmt takes up to a million for either.
func widestField(format string) int {
	const most = 1_000_000
	widest, n := 0, 0
	for i := range len(format) {
		c := format[i]
		switch {
		case c == '*':
			return 2 * most
		case c >= '0' && c <= '9':
			n = min(10*n+int(c-'0'), most)
			widest = max(widest, n)
		default:
			n = 0
		}
	}
	return 2 * widest
}

// replacedText is the length of what replace makes.
func replacedText(operands []*ast.Term) int {
	s, from, to := str(operands[0]), str(operands[1]), str(operands[2])
	if (len(s)+1)*(len(to)+1) <= maxText {
		return 0
	}
	return len(s) + strings.Count(s, from)*len(to)
}

// replacedMany is at least the length of what strings.replace_n makes, and a part of the
// work: at each byte it looks for keys, the longest of which may nearly be there.
func replacedMany(operands []*ast.Term) int {
	patterns, ok := operands[0].Value.(ast.Object)
	if !ok {
		return 0
	}
	key, value := 0, 0
	patterns.Foreach(func(k, v *ast.Term) { key, value = max(key, length(k)), max(value, length(v)) })
	return (length(operands[1])+1)*(max(value, key/4)+1) + patterns.Len()
}

// interpolated is about the length of what a template string makes.
func interpolated(operands []*ast.Term) int {
	w := weighed(operands[:1], maxText)
	return w.text + 4*w.values
}

// dated is at least the length of what time.format makes: its layout may have up to a
// name of a zone or a weekday for each two bytes.
func dated(operands []*ast.Term) int { return 32 * deepText(operands[:1]) }

// parts is how many parts split makes.
func parts(operands []*ast.Term) int {
	if length(operands[0]) <= maxValues {
		return 0
	}
	return strings.Count(str(operands[0]), str(operands[1])) + 1
}

// trimmed is how many characters are compared: each of the text with each of the cutset.
func trimmed(operands []*ast.Term) int { return length(operands[0]) * length(operands[1]) }

// found is how many characters indexof compares. Text that is not ASCII is searched
// character by character.
func found(operands []*ast.Term) int {
	s, of := str(operands[0]), str(operands[1])
	if n := len(s) * len(of); n <= maxCompared || !isASCII(s) || !isASCII(of) {
		return n
	}
	return 0
}

// foundAll is how many characters indexof_n compares. It finds at most as many places
// as the first byte is in the text, each of which is worth 200 comparisons.
func foundAll(operands []*ast.Term) int {
	s, of := str(operands[0]), str(operands[1])
	if n := len(s) * (len(of) + 200); n <= maxCompared || of == "" {
		return n
	}
	return strings.Count(s, of[:1]) * (len(of) + 200)
}

// globbed is at most how many characters are compared to match a glob.
func globbed(operands []*ast.Term) int {
	pattern := length(operands[0])
	last := operands[1]
	if len(operands) > 2 {
		last = operands[2]
	}
	return (pattern + 1) * (length(last) + 100)
}

// intersections is at most in how many ways the repetitions of two globs (* and +) can end
// at a character of the other: the search of regex.globs_match tries them one after the
// other, so that fifty bytes can keep it busy for hours.
func intersections(operands []*ast.Term) int {
	a, b := str(operands[0]), str(operands[1])
	repeated := 0
	for _, repetition := range []string{"*", "+"} {
		repeated += strings.Count(a, repetition) + strings.Count(b, repetition)
	}
	characters := len(a) + len(b) - repeated
	// Both are taken apart before, at about 100 ns a byte.
	if characters > maxIntersections/500 {
		return maxIntersections + 1
	}
	// The binomial coefficient of characters + repeated over repeated.
	ways := 1 + (characters+repeated)/1000
	for i := 1; i <= repeated && ways <= maxIntersections; i++ {
		ways = ways * (characters + i) / i
	}
	return ways
}

// decoded is about how many values are in a JSON text.
func decoded(operands []*ast.Term) int {
	s := str(operands[0])
	if len(s) <= 1000 {
		return 0
	}
	if digitsIn(s) > MaxDigits {
		return maxValues + 1
	}
	return strings.Count(s, ",") + strings.Count(s, "[") + strings.Count(s, "{")
}

// yamlText is how long a YAML text is. Long numbers are worth more than other text.
func yamlText(operands []*ast.Term) int {
	s := str(operands[0])
	if len(s) > maxYAML {
		return len(s)
	}
	return len(s) + 3*digitsIn(s)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
