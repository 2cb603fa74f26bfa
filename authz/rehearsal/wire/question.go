package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"understudy/authz"
)

// Question is a request that is to be decided in a lane.
type Question struct {
	// ID and Time are those of the request.
	ID   string
	Time time.Time
	// Timeout bounds reading the request and the evaluation.
	Timeout time.Duration
	// Plain says that no shortcut is taken in the evaluation.
	Plain bool
	// Asked is the request itself.
	Asked Asked
}

// Asked is a request in one of the forms in which it crosses: a [Check] or a [Document].
type Asked interface {
	// flags are those of the form, and append appends the rest of it, which is the end of the
	// payload.
	flags() byte
	append(b []byte) ([]byte, error)
}

// Check is a CheckRequest, as the bytes that Envoy sent. It is read where it is evaluated, by
// the reader that has read it here, which also makes all facts of it.
type Check string

// Document is a request of another front, or one that nothing was sent of: its input document
// has been made here.
type Document struct {
	// Facts are what the filters read of the request beside its input.
	Facts Facts
	// Input is the encoded input document; InputError is set in its place if there is none.
	Input      []byte
	InputError string
}

// Facts are what filters read of a request beside its input, its ID and its time.
type Facts struct {
	Operation authz.Operation
	Project   authz.Project
	// Method, Host, Path and Principal are for external services alone.
	Method, Host, Path, Principal string
	// Reservation is nil for a check of Envoy's.
	Reservation *authz.Reservation
}

// FactsOf returns the facts of a request.
func FactsOf(r *authz.Request) Facts {
	return Facts{
		Operation: r.Operation, Project: r.Project, Reservation: r.Reservation,
		Method: r.Method, Host: r.Host, Path: r.Path, Principal: r.Principal,
	}
}

// Request returns a request of these facts, which has neither an input nor ID and time.
func (f Facts) Request() *authz.Request {
	return &authz.Request{
		Operation: f.Operation, Method: f.Method, Host: f.Host, Path: f.Path, Principal: f.Principal,
		Project: f.Project, Reservation: f.Reservation,
	}
}

// The flags of a question.
const (
	flagPlainly = 1 << iota
	// flagDocument says that a Document is asked about, and not a Check.
	flagDocument
	flagNoInput
	// flagDetails says that there are facts which most documents do not have.
	flagDetails
	flagReservation
)

// errNothingAsked is of a question without a request.
var errNothingAsked = errors.New("rehearsal: nothing is asked about")

// AppendQuestion appends the form of a question, which ParseQuestion reads.
func AppendQuestion(b []byte, q Question) ([]byte, error) {
	if q.Asked == nil {
		return nil, errNothingAsked
	}
	flags := q.Asked.flags()
	if q.Plain {
		flags |= flagPlainly
	}
	b = binary.AppendVarint(append(b, flags), q.Time.UnixNano())
	b = binary.AppendVarint(b, int64(q.Timeout))
	return q.Asked.append(appendText(b, q.ID))
}

// ParseQuestion reads what AppendQuestion made. The input of a Document shares the memory of the
// payload.
func ParseQuestion(payload []byte) (Question, error) {
	d := decoder{rest: string(payload)}
	var q Question
	flags := d.byte()
	q.Plain = flags&flagPlainly != 0
	q.Time, q.Timeout = time.Unix(0, d.varint()), time.Duration(d.varint())
	q.ID = d.text()
	if flags&flagDocument != 0 {
		q.Asked = d.document(flags, payload)
	} else {
		if flags > flagPlainly {
			d.fail()
		}
		q.Asked = Check(d.rest)
	}
	if d.failed || flags >= flagReservation<<1 {
		return Question{}, ErrForm
	}
	return q, nil
}

func (Check) flags() byte { return 0 }

func (c Check) append(b []byte) ([]byte, error) { return append(b, c...), nil }

func (c Document) flags() byte {
	flags := byte(flagDocument)
	if c.Input == nil {
		flags |= flagNoInput
	}
	for _, text := range c.Facts.details() {
		if *text != "" {
			flags |= flagDetails
		}
	}
	if c.Facts.Reservation != nil {
		flags |= flagReservation
	}
	return flags
}

// details are the facts that most documents do not have.
func (f *Facts) details() [7]*string {
	return [...]*string{&f.Method, &f.Host, &f.Path, &f.Principal, &f.Project.ID, &f.Project.Name, &f.Project.Domain}
}

func (c Document) append(b []byte) ([]byte, error) {
	flags := c.flags()
	b = appendText(b, string(c.Facts.Operation))
	if flags&flagDetails != 0 {
		for _, text := range c.Facts.details() {
			b = appendText(b, *text)
		}
	}
	if c.Facts.Reservation != nil {
		encoded, err := json.Marshal(c.Facts.Reservation)
		if err != nil {
			return nil, err
		}
		b = appendText(b, string(encoded))
	}
	if c.Input == nil {
		return append(b, c.InputError...), nil
	}
	return append(b, c.Input...), nil
}

// document takes a Document, which is all that is left of a payload.
func (d *decoder) document(flags byte, payload []byte) (c Document) {
	c.Facts.Operation = authz.Operation(d.text())
	if flags&flagDetails != 0 {
		for _, text := range c.Facts.details() {
			*text = d.text()
		}
	}
	if flags&flagReservation != 0 {
		d.reservation(&c.Facts)
	}
	if flags&flagNoInput != 0 {
		c.InputError = d.rest
	} else {
		c.Input = payload[len(payload)-len(d.rest):]
	}
	return c
}

// AppendAbout appends the form of a question that asks for something else than a decision,
// which ParseAbout reads. about says for what, as Marshal has it.
func AppendAbout(b, about []byte, q Question) ([]byte, error) {
	b = append(binary.AppendUvarint(b, uint64(len(about))), about...)
	return AppendQuestion(b, q)
}

// ParseAbout reads what AppendAbout made.
func ParseAbout(payload []byte) (about []byte, q Question, err error) {
	n, size := binary.Uvarint(payload)
	if size <= 0 || n > uint64(len(payload)-size) {
		return nil, Question{}, ErrForm
	}
	about, payload = payload[size:size+int(n)], payload[size+int(n):]
	q, err = ParseQuestion(payload)
	return about, q, err
}

// reservation takes the JSON of a reservation, whose numbers stay as they are written.
func (d *decoder) reservation(f *Facts) {
	r, err := parseReservation(d.text())
	if err != nil {
		d.fail()
		return
	}
	f.Reservation = r
}
