package content

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"understudy/admin/apierror"
)

// The numbers in a policy's data are doubles (google.protobuf.Value). An ID such as
// 9007199254740993 would become another one, and let in anyone who has that: so a text with
// such a number is refused wherever it is read.

// InexactNumber is the error of a number in a JSON document that a policy would not keep.
type InexactNumber struct {
	// Path is where the number is, such as data.accounts[0].
	Path string
	// Number is the number as it is written.
	Number string
}

func (e *InexactNumber) Error() string {
	return fmt.Sprintf("the number %s at %s is not kept exactly: numbers are doubles; write it as a string, and compare it as one",
		apierror.Shown(e.Number), apierror.Shown(e.Path))
}

// CheckExact returns an *InexactNumber for the first number in a JSON document that
// IsExact refuses. path is that of the document; empty is one whose fields are named
// alone. It returns no other error: what is not JSON is found by anyone who decodes it.
func CheckExact(path string, document []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	inexact := (*InexactNumber)(nil)
	if err := (exactWalk{decoder}).value(); !errors.As(err, &inexact) {
		return nil
	}
	inexact.Path = strings.TrimPrefix(path+inexact.Path, ".")
	return inexact
}

// exactWalk reads a document token by token: decoded as a whole it would take many times
// its size. Paths are made on the way back, and only of what is refused.
type exactWalk struct{ *json.Decoder }

func (w exactWalk) value() error {
	token, err := w.Token()
	if err != nil {
		return err
	}
	switch t := token.(type) {
	case json.Number:
		if !IsExact(t.String()) {
			return &InexactNumber{Number: t.String()}
		}
	case json.Delim:
		return w.elements(t == '{')
	}
	return nil
}

// elements walks what is in an object or a list, and leaves it.
func (w exactWalk) elements(object bool) error {
	for i := 0; w.More(); i++ {
		var key json.Token
		if object {
			var err error
			if key, err = w.Token(); err != nil {
				return err
			}
		}
		err := w.value()
		if inexact := (*InexactNumber)(nil); errors.As(err, &inexact) {
			segment := fmt.Sprintf("[%d]", i)
			if name, ok := key.(string); ok {
				segment = KeySegment(name)
			}
			inexact.Path = segment + inexact.Path
		}
		if err != nil {
			return err
		}
	}
	_, err := w.Token()
	return err
}

// IsExact reports whether a decimal number is kept by a policy: a whole one has to come
// back from a double with the same digits, and no number may become infinite or zero. A
// fraction is rounded as every parser of JSON rounds it.
func IsExact(number string) bool {
	double, err := strconv.ParseFloat(number, 64)
	written, kept := decimalOf(number), decimalOf(strconv.FormatFloat(double, 'e', -1, 64))
	switch {
	case err != nil:
		return false
	case written.digits == "" || kept.digits == "":
		return written.digits == kept.digits
	case written.exponent < 0:
		return true
	}
	return written == kept
}

// decimal is a number as digits × 10^exponent, without zeros at either end. Zero has no
// digits. The sign is left out: a double keeps it.
type decimal struct {
	digits   string
	exponent int
}

func decimalOf(number string) decimal {
	mantissa, power, _ := strings.Cut(strings.ToLower(strings.TrimLeft(number, "+-")), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	trimmed := strings.TrimRight(digits, "0")
	// A power that is no int belongs to zero, to a number that becomes zero, or to one
	// that does not fit into a double.
	exponent, _ := strconv.Atoi(power)
	return decimal{trimmed, exponent - len(fraction) + len(digits) - len(trimmed)}
}
