package bounds

import (
	"math/big"

	"github.com/open-policy-agent/opa/v1/ast"
)

// MaxDigits is how long a number may be, in characters. Numbers of OPA have no bound:
// reading one takes time that grows with the square of its length, and a request may
// contain one of a million digits.
const MaxDigits = 20_000

// maxShift is how far bits.lsh shifts. The number that it makes is as long as the shift.
const maxShift = 1 << 16

var _ = []struct{}{
	bind(MaxDigits, "digits", digits, "plus", "minus", "mul", "div", "rem", "abs", "ceil", "floor", "round",
		"bits.and", "bits.negate", "bits.or", "bits.rsh", "bits.xor", "format_int", "to_number"),
	bind(maxShift, "bits", shifted, "bits.lsh"),
	bind(50_000, "digits of all numbers together", allDigits, "product"),
	bind(maxValues, "numbers", ranged, "numbers.range", "numbers.range_step"),
}

// digits is the length of the longest operand that is a number or the text of one.
func digits(operands []*ast.Term) (n int) {
	for _, o := range operands {
		switch v := o.Value.(type) {
		case ast.Number:
			n = max(n, len(v))
		case ast.String:
			n = max(n, len(v))
		}
	}
	return n
}

// allDigits is about how long the product of all numbers is.
func allDigits(operands []*ast.Term) int { return deepText(operands[:1]) }

// shifted is how long the result of a shift is, in bits.
func shifted(operands []*ast.Term) int {
	if n := digits(operands[:1]); n > MaxDigits {
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

// ranged is how many numbers there are in a range.
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

// rangedBig is ranged for numbers that do not fit into 64 bits.
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

// longestNumber is the length of the longest run of digits in a text.
func longestNumber(s string) int {
	longest, n := 0, 0
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9', c == '.', c == 'e', c == 'E', c == '-', c == '+':
			n++
		default:
			longest, n = max(longest, n), 0
		}
	}
	return max(longest, n)
}
