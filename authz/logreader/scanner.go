package logreader

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// MaxRecord is how large a record may be, in bytes: what a collector writes on one line is a
// batch of hundreds of events.
const MaxRecord = 16 << 20

// Record is a part of a file that stands for itself: a line, an object over several lines, or an element of an array.
type Record struct {
	// Number counts the lines of the file, or the elements of its arrays, from 1. That of an object over several lines
	// is its first line.
	Number int64
	// Text is valid until the next record.
	Text []byte
}

// BrokenError says that a part of a file cannot be read. What follows it can, as far as there
// is anything.
type BrokenError struct {
	// Number is that of the record.
	Number int64
	// Reason says what is wrong with it, without quoting it.
	Reason string
}

func (e *BrokenError) Error() string { return fmt.Sprintf("record %d: %s", e.Number, e.Reason) }

// Scanner splits a file into records. It is used by one goroutine.
type Scanner struct {
	in *bufio.Reader
	// array says that the file is arrays, as OPA uploads them, and not lines.
	array bool
	// over says that there is nothing more.
	over bool
	// number is that of the record, and lines how many lines were read.
	number, lines int64
	record        []byte
}

// NewScanner returns a scanner of a file, whose form it finds out. The error is that of the
// reader. Gzip is read whatever the file's name is.
func NewScanner(file io.Reader) (*Scanner, error) {
	s := &Scanner{in: bufio.NewReaderSize(file, 256<<10)}
	if magic, _ := s.in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unzipped, err := gzip.NewReader(s.in)
		if err != nil {
			return nil, fmt.Errorf("reading gzip: %w", err)
		}
		s.in = bufio.NewReaderSize(unzipped, 256<<10)
	}
	s.array = beginsArray(s.in)
	return s, nil
}

// beginsArray reports whether a file begins with an array of objects. A line may begin with a
// bracket too: that before the name of a pod.
func beginsArray(in *bufio.Reader) bool {
	head, _ := in.Peek(512)
	rest, found := bytes.CutPrefix(bytes.TrimLeft(head, " \t\r\n\ufeff"), []byte("["))
	rest = bytes.TrimLeft(rest, " \t\r\n")
	return found && len(rest) > 0 && (rest[0] == '{' || rest[0] == ']')
}

// Next returns the next record; empty ones are left out. The error is io.EOF after the last
// one, a *BrokenError for a record that is too large or a file that ends too soon, or that of
// the reader.
func (s *Scanner) Next() (Record, error) {
	for !s.over {
		s.record = s.record[:0]
		read := s.line
		if s.array {
			read = s.element
		}
		if err := read(); err != nil {
			return Record{}, err
		}
		if text := bytes.TrimSpace(s.record); len(text) > 0 {
			return Record{Number: s.number, Text: text}, nil
		}
	}
	return Record{}, io.EOF
}

// line reads a line, or an object over several lines, as OPA writes it with --log-format json-pretty: the first has its
// brace alone, and so has the last. What is too long is skipped to its end.
func (s *Scanner) line() error {
	s.lines++
	s.number = s.lines
	long, err := s.appendLine(false)
	if err == nil && isBrace(s.record, "{") {
		for closed := false; !closed && !s.over && err == nil; {
			s.lines++
			begin := len(s.record)
			long, err = s.appendLine(long)
			closed = isBrace(s.record[begin:], "}")
			if long {
				s.record = s.record[:begin]
			}
		}
	}
	if err == nil && long {
		err = s.tooLarge()
	}
	return err
}

// isBrace reports whether a line has a brace and nothing else.
func isBrace(line []byte, brace string) bool {
	return string(bytes.TrimRight(line, " \t\r\n")) == brace
}

// appendLine appends a line to the record, and reports whether that is too long now. Of what is too long, only the
// beginning is appended. Long says that it was before.
func (s *Scanner) appendLine(long bool) (bool, error) {
	for first := true; ; first = false {
		part, err := s.in.ReadSlice('\n')
		long = long || len(s.record)+len(part) > MaxRecord
		if !long || first {
			s.record = append(s.record, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return long, s.ended(err)
		}
		s.over = err != nil
		return long, nil
	}
}

func (s *Scanner) tooLarge() error {
	s.record = s.record[:0]
	return &BrokenError{s.number, fmt.Sprintf("it has more than %d MiB", MaxRecord>>20)}
}

// ended is the error of a file that cannot be read to its end: one whose compression breaks off
// is broken, and any other error is the reader's.
func (s *Scanner) ended(err error) error {
	s.over = true
	var corrupt flate.CorruptInputError
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || errors.As(err, &corrupt) {
		return &BrokenError{s.number, "the compressed file is damaged or breaks off here"}
	}
	return err
}

// element reads an element of an array, of whichever array it is: a file may have several, one
// after the other.
func (s *Scanner) element() error {
	var at scanState
	long := false
	for !at.over {
		if _, err := s.in.Peek(1); err != nil {
			return s.brokenOff(err, at)
		}
		part, _ := s.in.Peek(s.in.Buffered())
		n, begin, end := at.walk(part)
		if long = long || len(s.record)+end-begin > MaxRecord; !long {
			s.record = append(s.record, part[begin:end]...)
		}
		_, _ = s.in.Discard(n)
	}
	s.number++
	if long {
		return s.tooLarge()
	}
	return nil
}

// brokenOff ends the file, which is well between two elements.
func (s *Scanner) brokenOff(err error, at scanState) error {
	if !errors.Is(err, io.EOF) {
		s.number++
		return s.ended(err)
	}
	s.over, s.record = true, s.record[:0]
	if !at.inside {
		return nil
	}
	s.number++
	return &BrokenError{s.number, "the file ends within it"}
}

// scanState is where a scanner is in an element.
type scanState struct {
	// inside says that the element has begun, over that it has ended.
	inside, over bool
	// quoted says that it is in a string, escaped that the next byte of that is escaped.
	quoted, escaped bool
	depth           int
}

// walk goes on in a part of the file, to the end of the element or of the part. It returns how
// many bytes it took, and the first and last of them that belong to the element. Outside of an
// element, brackets and commas are what arrays are made of.
func (p *scanState) walk(part []byte) (n, begin, end int) {
	begin = p.enter(part)
	for i := begin; i < len(part); i++ {
		c := part[i]
		switch {
		case p.escaped:
			p.escaped = false
		case p.quoted:
			p.escaped, p.quoted = c == '\\', c != '"'
		case c == '"':
			p.quoted = true
		default:
			if own := p.structure(c); p.over {
				return i + 1, begin, i + own
			}
		}
	}
	return len(part), begin, len(part)
}

// enter returns where the element begins or goes on in a part; the end of the part if it is
// between two elements.
func (p *scanState) enter(part []byte) int {
	if p.inside {
		return 0
	}
	begin := len(part) - len(bytes.TrimLeft(part, "[], \t\r\n"))
	p.inside = begin < len(part)
	return begin
}

// structure takes a byte that is in no string. If the element ends by it, own is how many
// bytes of it, 0 or 1, belong to the element.
func (p *scanState) structure(c byte) (own int) {
	switch c {
	case '{', '[':
		p.depth++
	case ',':
		p.over = p.depth == 0
	case ']':
		if p.depth == 0 {
			p.over = true
			return 0
		}
		fallthrough
	case '}':
		p.depth--
		p.over = p.depth <= 0
		return 1
	}
	return 0
}
