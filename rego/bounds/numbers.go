package bounds

import (
	"math"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// MaxDigits is how many digits a number may have, or all long numbers of a document
// together, with those that stand in its exponent: 1e400 has 400. Numbers of OPA have no
// bound of their own: to compare two takes time that grows with the square of their
// digits, and a request may contain one of a million.
const MaxDigits = 20_000

// usualNumber is how long the numbers are, in characters, that are not counted: all that
// fit into a double or 64 bits.
const usualNumber = 30

// maxShift is how far bits.lsh shifts. The number that it makes is as long as the shift.
const maxShift = 1 << 16

var _ = []struct{}{
	bind(MaxDigits, "digits", digits, "plus", "mul", "div", "rem", "abs", "ceil", "floor", "round",
		"bits.and", "bits.negate", "bits.or", "bits.rsh", "bits.xor", "format_int", "to_number"),
	bind(maxShift, "bits", shifted, "bits.lsh"),
	bind(50_000, "digits of all numbers together", allDigits, "product"),
	bind(maxValues, "numbers", ranged, "numbers.range", "numbers.range_step"),
}

// Digits returns how many digits a number has if it is a long one, with those that
// stand in its exponent; otherwise 0. Short numbers count nothing, so that any number
// of them may be in a document: only long ones make arithmetic and comparisons slow.
func Digits(number string) int {
	n := exponent(number)
	if len(number) <= usualNumber && n <= 300 {
		return 0
	}
	return len(number) + n
}

// exponent returns the size of the exponent of a number, whatever its sign: 1e-400 is as long to write as 1e400. That of
// 0x1p-400, which to_number makes a number of, is binary, and counts as if it were not. Of an exponent that no int has,
// OPA makes no number.
func exponent(number string) (n int) {
	digits := number[len(strings.TrimRight(number, "0123456789_")):]
	before := strings.TrimRight(number[:len(number)-len(digits)], "+-")
	if before == "" || !strings.Contains("eEpP", before[len(before)-1:]) {
		return 0
	}
	for _, digit := range []byte(strings.ReplaceAll(digits, "_", "")) {
		n = min(10*n+int(digit-'0'), math.MaxInt32)
	}
	return n
}

// digits is that of the longest operand that is a number or the text of one. Digits in an
// exponent count ten times: to write 1e-9000 takes longer than to write an integer.
func digits(operands []*ast.Term) (n int) {
	for _, o := range operands {
		text, isText := "", false
		switch v := o.Value.(type) {
		case ast.Number:
			text = string(v)
		case ast.String:
			text, isText = string(v), true
		}
		d := Digits(text)
		if d == 0 || isText && !isNumber(text) {
			continue // a text that is no number is an error for OPA, whatever its length
		}
		n = max(n, d+9*(d-len(text)))
	}
	return n
}

// isNumber reports whether OPA makes a number of a text.
func isNumber(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	return err == nil
}

// allDigits is about how long the product of all numbers is.
func allDigits(operands []*ast.Term) int {
	w := weighed(operands[:1], maxRead)
	return w.text + 10*w.digits
}

// shifted is how long the result of a shift is, in bits.
func shifted(operands []*ast.Term) int {
	if digits(operands[:1]) > MaxDigits {
		return maxShift + 1
	}
	return int(max(0, min(double(operands[1]), maxShift+1)))
}

// ranged is about how many numbers there are in a range, and never less. Doubles are exact enough: what they
// may be wrong by is added, which is nothing next to the limit for numbers of up to 18 digits.
func ranged(operands []*ast.Term) int {
	from, to, step := double(operands[0]), double(operands[1]), 1.0
	if len(operands) > 2 {
		step = max(step, double(operands[2]))
	}
	size := math.Abs(from) + math.Abs(to)
	if math.IsInf(size, 1) || math.IsInf(step, 1) {
		return maxValues + 1
	}
	return int(min((math.Abs(to-from)+size*0x1p-50)/step, maxValues)) + 1
}

// double is a number as a double, infinite if it is too large for one; 0 is what is no number.
func double(t *ast.Term) float64 {
	n, ok := t.Value.(ast.Number)
	if !ok {
		return 0
	}
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil {
		return math.Inf(1)
	}
	return f
}

// digitsIn is how many digits the long numbers in a text have together, or what may be
// such: it looks at characters only, since the text is not parsed yet. Too many is on
// the safe side.
func digitsIn(s string) (total int) {
	for number := range strings.FieldsFuncSeq(s, isNoPartOfNumber) {
		total += Digits(strings.TrimLeft(number, ".eE+-"))
	}
	return total
}

func isNoPartOfNumber(c rune) bool {
	return (c < '0' || c > '9') && c != '.' && c != 'e' && c != 'E' && c != '+' && c != '-'
}
