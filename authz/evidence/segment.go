package evidence

import "strings"

const (
	// anySegment stands for any segment of a path, anyRest for any number of them.
	anySegment = "*"
	anyRest    = "**"
	// maxSegment is the length from which on a segment is variable, in bytes.
	maxSegment = 32
)

// split cuts the verb off a segment such as web:commit (AIP-136): letters behind a colon.
func split(segment string) (name, verb string) {
	i := strings.LastIndexByte(segment, ':')
	if i <= 0 || i+1 == len(segment) || len(segment)-i > maxSegment {
		return segment, ""
	}
	for j := i + 1; j < len(segment); j++ {
		if c := segment[j] | 0x20; c < 'a' || c > 'z' {
			return segment, ""
		}
	}
	return segment[:i], segment[i:]
}

// wordOf returns the word of a segment, or the verb behind an identifier; that is empty if there
// is none.
func wordOf(segment string) (word string, verb bool) {
	name, behind := split(segment)
	if variable(name) {
		return behind, true
	}
	return segment, false
}

// letters are the classes of bytes that tell an identifier from a word.
type letters struct{ digits, hex, letters, turns, marks int }

// variable reports whether a segment looks like an identifier and not like a word of an API:
// a number, a UUID, hex, a long one, or one in which letters and digits take turns. So does
// what a word of an API has not: whatever is quoted, no ASCII, or has a parameter.
func variable(segment string) bool {
	if len(segment) > maxSegment {
		return true
	}
	var n letters
	var last byte
	for i := range len(segment) {
		class := n.add(segment[i])
		if class == 0 {
			return true
		}
		if class != '-' {
			if last != 0 && class != last {
				n.turns++
			}
			last = class
		}
	}
	return n.identify(segment)
}

// identify reports whether a segment with these letters is an identifier.
func (n *letters) identify(segment string) bool {
	onlyHex := n.digits+n.hex+n.marks == len(segment)
	switch {
	case n.digits == 0:
		return onlyHex && n.hex >= 16
	case n.letters == 0:
		return true
	case version(segment):
		return false
	}
	return n.digits >= 4 || n.turns >= 3 || onlyHex && len(segment) >= 8
}

// add counts a byte and returns its class; 0 for one that no word has.
func (n *letters) add(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		n.digits++
		return '0'
	case c >= 'a' && c <= 'f', c >= 'A' && c <= 'F':
		n.hex++
		n.letters++
		return 'a'
	case c >= 'g' && c <= 'z', c >= 'G' && c <= 'Z':
		n.letters++
		return 'a'
	case c == '-', c == '_', c == '.', c == '~':
		n.marks++
		return '-'
	}
	return 0
}

// version reports whether a segment is the version of an API: v1, v2beta1, v1.2.
func version(segment string) bool {
	rest := segment[1:]
	if segment[0] != 'v' || rest == "" || rest[0] < '0' || rest[0] > '9' {
		return false
	}
	rest = strings.TrimLeft(rest, "0123456789.")
	for _, stage := range []string{"alpha", "beta"} {
		if after, ok := strings.CutPrefix(rest, stage); ok {
			rest = strings.TrimLeft(after, "0123456789")
			break
		}
	}
	return rest == ""
}
