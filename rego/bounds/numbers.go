package bounds

import (
	"math/big"
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

// exponent returns the size of the exponent of a number, whatever its sign: 1e-400 is
// as long to write as 1e400. It looks at the last twelve characters, which is where an
// exponent that OPA accepts has to be.
func exponent(number string) (n int) {
	for i := len(number) - 1; i > 0 && i >= len(number)-12; i-- {
		if c := number[i]; c == 'e' || c == 'E' {
			for _, digit := range []byte(strings.TrimLeft(number[i+1:], "+-")) {
				n = 10*n + int(digit-'0')
			}
			return n
		}
	}
	return 0
}

// digits is that of the longest operand that is a number or the text of one. Digits in an
// exponent count ten times: to write 1e-9000 takes longer than to write an integer.
func digits(operands []*ast.Term) (n int) {
	for _, o := range operands {
		text := ""
		switch v := o.Value.(type) {
		case ast.Number:
			text = string(v)
		case ast.String:
			text = string(v)
		}
		if d := Digits(text); d > 0 {
			n = max(n, d+9*(d-len(text)))
		}
	}
	return n
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
	n, ok := operands[1].Value.(ast.Number)
	if !ok {
		return 0
	}
	shift, ok := n.Float64()
	switch {
	case !ok || shift > maxShift:
		return maxShift + 1
	case shift < 0:
		return 0
	}
	return int(shift)
}

// ranged is how many numbers there are in a range. The distance is computed without a
// sign, since that of the two ends may not fit into 63 bits.
func ranged(operands []*ast.Term) int {
	step := int64(1)
	from, ok1 := int64Of(operands[0])
	to, ok2 := int64Of(operands[1])
	if !ok1 || !ok2 {
		return rangedBig(operands)
	}
	if len(operands) > 2 {
		if s, ok := int64Of(operands[2]); ok && s > 0 {
			step = s
		}
	}
	distance := uint64(to) - uint64(from)
	if to < from {
		distance = uint64(from) - uint64(to)
	}
	return int(min(distance/uint64(step), maxValues)) + 1
}

// rangedBig is ranged for numbers that do not fit into 64 bits. It first looks at how
// long they are: to compute the distance of two numbers with a huge exponent is what
// has to be prevented.
func rangedBig(operands []*ast.Term) int {
	if digits(operands) > MaxDigits {
		return maxValues + 1
	}
	var numbers [2]*big.Int
	for i := range numbers {
		n, ok := operands[i].Value.(ast.Number)
		if !ok {
			return 0
		}
		f, _, err := big.ParseFloat(string(n), 10, 64, big.ToZero)
		if err != nil {
			return 0
		}
		if f.MantExp(nil) > 1<<17 {
			return maxValues + 1
		}
		numbers[i], _ = f.Int(nil)
	}
	distance := new(big.Int).Sub(numbers[1], numbers[0])
	distance.Abs(distance)
	if len(operands) > 2 {
		if n, ok := operands[2].Value.(ast.Number); ok {
			if f, _, err := big.ParseFloat(string(n), 10, 64, big.ToZero); err == nil && f.Sign() > 0 && f.MantExp(nil) < 1<<17 {
				if step, _ := f.Int(nil); step.Sign() > 0 {
					distance.Quo(distance, step)
				}
			}
		}
	}
	if !distance.IsInt64() {
		return maxValues + 1
	}
	return int(min(distance.Int64(), maxValues)) + 1
}

func int64Of(t *ast.Term) (int64, bool) {
	n, ok := t.Value.(ast.Number)
	if !ok {
		return 0, false
	}
	return n.Int64()
}

// digitsIn is how many digits the long numbers in a text have together, or what may be
// such: it looks at characters only, since the text is not parsed yet. Too many is on
// the safe side.
func digitsIn(s string) (total int) {
	begin := -1
	for i := range len(s) {
		c := s[i]
		if c >= '0' && c <= '9' || begin >= 0 && (c == '.' || c == 'e' || c == 'E' || c == '-' || c == '+') {
			if begin < 0 {
				begin = i
			}
			continue
		}
		if begin >= 0 {
			total += Digits(s[begin:i])
			begin = -1
		}
	}
	if begin >= 0 {
		total += Digits(s[begin:])
	}
	return total
}
