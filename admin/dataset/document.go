package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"understudy/admin/content"
)

const (
	// DefaultSize is the limit on a document, in bytes, unless a server sets another one.
	DefaultSize = 8 << 20
	// MaxSize bounds what a server may set.
	MaxSize = 16 << 20
	// maxDepth is how many objects and lists may be in each other: as in a policy's data, whose
	// place they take.
	maxDepth = 32
	// maxShown bounds what an error shows of a document.
	maxShown = 100
)

// Error is why a document is refused. It says what to do, and quotes a key or a number at most.
type Error struct {
	// Path is where, such as .users["u 17"].age; empty for the document as a whole.
	Path string
	// Description says what is wrong there, and how to put it right.
	Description string
	// Large says that the document is larger than the limit.
	Large bool
}

func (e *Error) Error() string {
	if e.Path == "" {
		return e.Description
	}
	return "at " + e.Path + ": " + e.Description
}

func refuse(format string, args ...any) *Error {
	return &Error{Description: fmt.Sprintf(format, args...)}
}

// Canonical returns a document of at most limit bytes as it is kept: without white space, with the
// keys of each object in bytewise order, and numbers as encoding/json writes doubles. The error is
// an *Error.
func Canonical(document []byte, limit int) ([]byte, error) {
	if len(document) > limit {
		return nil, tooLarge(len(document), limit)
	}
	if err := checkText(document); err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	w := walk{decoder: decoder, out: make([]byte, 0, len(document))}
	if err := w.value(maxDepth); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, refuse("There is something behind the document, at byte %d. Send one document.", decoder.InputOffset())
	}
	if len(w.out) > limit { // a double may have a longer spelling than it came with
		return nil, tooLarge(len(w.out), limit)
	}
	return w.out, nil
}

// Check returns the error of a document that is not as Canonical returns it.
func Check(document []byte) error {
	canonical, err := Canonical(document, max(len(document), MaxSize))
	if err == nil && !bytes.Equal(canonical, document) {
		err = refuse("It is not in the spelling in which it is kept.")
	}
	return err
}

func tooLarge(size, limit int) *Error {
	e := refuse("The document has %d bytes; the limit is %d. Split it into several datasets, "+
		"or raise --max-dataset-size of the server, up to %d.", size, limit, MaxSize)
	e.Large = true
	return e
}

// checkText refuses what parsers of JSON read differently: bytes that are not UTF-8, and halves of
// characters (surrogates), which many replace by one and the same character.
func checkText(document []byte) error {
	if !utf8.Valid(document) {
		return refuse("It is not UTF-8. Write the file in UTF-8, without a byte order mark.")
	}
	for i := 0; i < len(document); i++ {
		if document[i] != '\\' || i+1 == len(document) {
			continue
		}
		i++
		if document[i] != 'u' {
			continue
		}
		high := escaped(document, i+1)
		switch {
		case high < 0xD800 || high > 0xDFFF:
		case high < 0xDC00 && isLow(document, i+5):
			i += 10
		default:
			return refuse("The escape \\u%04x at byte %d is half of a character. Write both halves, or the character itself.", high, i-1)
		}
	}
	return nil
}

// isLow reports whether the second half of a character is escaped at a place.
func isLow(document []byte, at int) bool {
	if at+1 >= len(document) || document[at] != '\\' || document[at+1] != 'u' {
		return false
	}
	low := escaped(document, at+2)
	return low >= 0xDC00 && low <= 0xDFFF
}

// escaped returns the number of four digits at a place; -1 if they are none, which is for the parser
// to refuse.
func escaped(document []byte, at int) int {
	if at+4 > len(document) {
		return -1
	}
	n, err := strconv.ParseUint(string(document[at:at+4]), 16, 16)
	if err != nil {
		return -1
	}
	return int(n)
}

// walk reads a document token by token: decoded as a whole it would take many times its size.
type walk struct {
	decoder *json.Decoder
	out     []byte
}

// value reads a value in which so many objects and lists may be in each other. Paths are made on
// the way back, and only of what is refused.
func (w *walk) value(depth int) error {
	token, err := w.token()
	if err != nil {
		return err
	}
	switch t := token.(type) {
	case json.Delim:
		if depth == 0 {
			return refuse("More than %d objects and lists are in each other here. Make the data flatter, "+
				"for instance with one object whose keys are paths.", maxDepth)
		}
		if t == '{' {
			return w.object(depth - 1)
		}
		return w.list(depth - 1)
	case json.Number:
		return w.number(t.String())
	case string:
		w.out = appendText(w.out, t)
	case bool:
		w.out = strconv.AppendBool(w.out, t)
	case nil:
		w.out = append(w.out, "null"...)
	}
	return nil
}

func (w *walk) token() (json.Token, error) {
	token, err := w.decoder.Token()
	switch {
	case err == nil:
		return token, nil
	case errors.Is(err, io.EOF):
		return nil, refuse("It ends before the document does, at byte %d: it is empty, or was cut off.", w.decoder.InputOffset())
	}
	return nil, refuse("It is not JSON, at byte %d: %v.", w.decoder.InputOffset(), err)
}

func (w *walk) number(text string) error {
	double, err := strconv.ParseFloat(text, 64)
	if err != nil || !content.IsExact(text) {
		return refuse("The number %s is not kept exactly: numbers are doubles. Write it as a string, and compare it as one.", shown(text))
	}
	spelled, err := json.Marshal(double)
	if err != nil {
		return refuse("The number %s cannot be kept. Write it as a string.", shown(text))
	}
	w.out = append(w.out, spelled...)
	return nil
}

func (w *walk) list(depth int) error {
	w.out = append(w.out, '[')
	for i := 0; w.decoder.More(); i++ {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		if err := w.value(depth); err != nil {
			return below(fmt.Sprintf("[%d]", i), err)
		}
	}
	w.out = append(w.out, ']')
	_, err := w.token()
	return err
}

// member is a key with its value, which are out[from:to] with the colon.
type member struct {
	key      string
	from, to int
}

func (w *walk) object(depth int) error {
	begin := len(w.out)
	w.out = append(w.out, '{')
	var members []member
	for w.decoder.More() {
		token, err := w.token()
		if err != nil {
			return err
		}
		m := member{key: token.(string), from: len(w.out)} // the decoder takes nothing else for a key
		w.out = append(appendText(w.out, m.key), ':')
		if err := w.value(depth); err != nil {
			return below(content.KeySegment(m.key), err)
		}
		m.to = len(w.out)
		w.out = append(w.out, ',')
		members = append(members, m)
	}
	if _, err := w.token(); err != nil {
		return err
	}
	return w.sorted(begin, members)
}

// sorted ends an object that begins at a place, with its members in the order of their keys.
func (w *walk) sorted(begin int, members []member) error {
	byKey := func(a, b member) int { return bytes.Compare([]byte(a.key), []byte(b.key)) }
	inOrder := slices.IsSortedFunc(members, byKey)
	if !inOrder {
		slices.SortStableFunc(members, byKey)
	}
	for i := 1; i < len(members); i++ {
		if members[i].key == members[i-1].key {
			return below(content.KeySegment(members[i].key), refuse("The object has this key twice. Keep one of them."))
		}
	}
	if len(members) > 0 {
		w.out = w.out[:len(w.out)-1] // the last comma
	}
	if !inOrder {
		unsorted := slices.Clone(w.out[begin:])
		w.out = append(w.out[:begin], '{')
		for i, m := range members {
			if i > 0 {
				w.out = append(w.out, ',')
			}
			w.out = append(w.out, unsorted[m.from-begin:m.to-begin]...)
		}
	}
	w.out = append(w.out, '}')
	return nil
}

// below puts the segment of a path before that of a refusal.
func below(segment string, err error) error {
	var refused *Error
	if errors.As(err, &refused) {
		refused.Path = shown(segment) + refused.Path
		if len(refused.Path) > 4*maxShown {
			refused.Path = refused.Path[:2*maxShown] + "…" + shown(refused.Path[len(refused.Path)-maxShown:])
		}
	}
	return err
}

// shown cuts a text that is not ours.
func shown(text string) string {
	if len(text) <= maxShown {
		return text
	}
	return text[:maxShown] + "…"
}

// appendText writes a string as JSON, with no more escapes than it needs.
func appendText(out []byte, text string) []byte {
	if !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r == '\u2028' || r == '\u2029' }) {
		return append(append(append(out, '"'), text...), '"')
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		panic(err) // a string can be encoded
	}
	return append(out, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}
