package wire

import (
	"encoding/binary"
	"encoding/json"
	"time"

	"understudy/authz"
)

// Question is a request that is to be decided in a lane.
type Question struct {
	// Facts are what the filters read of the request beside its input.
	Facts Facts
	// Timeout bounds the evaluation.
	Timeout time.Duration
	// Plain says that no shortcut is taken in the evaluation.
	Plain bool
	// Input is the encoded input document; InputError is set in its place if there is none.
	Input      []byte
	InputError string
	// Narrow is, for KindBlame, the encoded document of what the policy reads.
	Narrow []byte
}

// Facts are what filters read of a request beside its input.
type Facts struct {
	Time      time.Time
	Operation authz.Operation
	Project   authz.Project
	// ID, Method, Host, Path and Principal are for external services alone.
	ID, Method, Host, Path, Principal string
	// Reservation is nil for a check of Envoy's.
	Reservation *authz.Reservation
}

// FactsOf returns the facts of a request. services says whether the policy asks external
// services.
func FactsOf(r *authz.Request, services bool) Facts {
	f := Facts{Time: r.Time, Operation: r.Operation, Project: r.Project, Reservation: r.Reservation, ID: r.ID}
	if services {
		f.Method, f.Host, f.Path, f.Principal = r.Method, r.Host, r.Path, r.Principal
	}
	return f
}

// Request returns a request of these facts, which has no input yet.
func (f Facts) Request() *authz.Request {
	return &authz.Request{
		ID: f.ID, Operation: f.Operation, Time: f.Time, Method: f.Method, Host: f.Host, Path: f.Path, Principal: f.Principal,
		Project: f.Project, Reservation: f.Reservation,
	}
}

// The flags of a question.
const (
	flagNoInput = 1 << iota
	flagPlainly
	// flagDetails says that there are facts which most requests do not have.
	flagDetails
	flagReservation
)

// AppendQuestion appends the form of a question, which ParseQuestion reads.
func AppendQuestion(b []byte, q Question) ([]byte, error) {
	var flags byte
	if q.Input == nil {
		flags |= flagNoInput
	}
	if q.Plain {
		flags |= flagPlainly
	}
	f := q.Facts
	details := []string{f.Method, f.Host, f.Path, f.Principal, f.Project.ID, f.Project.Name, f.Project.Domain}
	for _, text := range details {
		if text != "" {
			flags |= flagDetails
		}
	}
	if f.Reservation != nil {
		flags |= flagReservation
	}
	b = binary.AppendVarint(append(b, flags), f.Time.UnixNano())
	b = binary.AppendVarint(b, int64(q.Timeout))
	b = appendText(appendText(b, string(f.Operation)), f.ID)
	if flags&flagDetails != 0 {
		for _, text := range details {
			b = appendText(b, text)
		}
	}
	if f.Reservation != nil {
		encoded, err := json.Marshal(f.Reservation)
		if err != nil {
			return nil, err
		}
		b = appendText(b, string(encoded))
	}
	b = binary.AppendUvarint(b, uint64(len(q.Narrow)))
	b = append(b, q.Narrow...)
	if q.Input == nil {
		return append(b, q.InputError...), nil
	}
	return append(b, q.Input...), nil
}

// ParseQuestion reads what AppendQuestion made. The inputs share the memory of the payload.
func ParseQuestion(payload []byte) (Question, error) {
	d := decoder{rest: string(payload)}
	var q Question
	flags := d.byte()
	f := &q.Facts
	f.Time, q.Timeout = time.Unix(0, d.varint()), time.Duration(d.varint())
	f.Operation, f.ID = authz.Operation(d.text()), d.text()
	if flags&flagDetails != 0 {
		for _, text := range []*string{&f.Method, &f.Host, &f.Path, &f.Principal, &f.Project.ID, &f.Project.Name, &f.Project.Domain} {
			*text = d.text()
		}
	}
	if flags&flagReservation != 0 {
		d.reservation(f)
	}
	q.Plain = flags&flagPlainly != 0
	q.Narrow = []byte(d.text())
	if d.failed || flags >= flagReservation<<1 {
		return Question{}, ErrForm
	}
	if flags&flagNoInput != 0 {
		q.InputError = d.rest
		return q, nil
	}
	q.Input = payload[len(payload)-len(d.rest):]
	return q, nil
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
