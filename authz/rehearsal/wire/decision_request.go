package wire

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"understudy/authz"
	wirepb "understudy/authz/rehearsal/wire/v1"
)

// DecisionRequest is a request that is to be decided in a lane.
type DecisionRequest struct {
	// ID and Time are those of the request.
	ID   string
	Time time.Time
	// Timeout bounds reading the request and the evaluation.
	Timeout time.Duration
	// Plain says that no shortcut is taken in the evaluation.
	Plain bool
	// About is what is asked for, as Marshal has it; nil for a decision.
	About []byte
	// Asked is the request itself.
	Asked Asked
}

// Asked is a request in one of the forms in which it crosses: a [Check] or a [Document].
type Asked interface {
	// facts are those of a Document, and content is what follows the message.
	facts() (*wirepb.Facts, error)
	content() string
}

// Check is a CheckRequest, as the bytes that Envoy sent. It is read where it is evaluated, by
// the reader that has read it here, which also makes all facts of it.
type Check string

// Document is a request of another front, or one that nothing was sent of: its input document
// has been made here.
type Document struct {
	// Facts are what the filters read of the request next to its input.
	Facts Facts
	// Input is the encoded input document; Unreadable is set in its place if there is none.
	Input      []byte
	Unreadable *authz.BadRequest
}

// Facts are what filters read of a request next to its input, its ID and its time.
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

// errNothingAsked is the error of a message without a request.
var errNothingAsked = errors.New("rehearsal: nothing is asked about")

// AppendDecisionRequest appends the form of a request, which ParseDecisionRequest reads: the size of a message, the
// message, and the request, which is copied once on each side.
func AppendDecisionRequest(b []byte, q DecisionRequest) ([]byte, error) {
	if q.Asked == nil {
		return nil, errNothingAsked
	}
	facts, err := q.Asked.facts()
	if err != nil {
		return nil, err
	}
	m := &wirepb.DecisionRequest{
		Id: []byte(q.ID), Time: q.Time.UnixNano(), Timeout: int64(q.Timeout), Plain: q.Plain, About: q.About, Document: facts,
	}
	size, content := proto.Size(m), q.Asked.content()
	b = protowire.AppendVarint(slices.Grow(b, protowire.SizeBytes(size)+len(content)), uint64(size))
	if b, err = (proto.MarshalOptions{UseCachedSize: true}).MarshalAppend(b, m); err != nil {
		return nil, err
	}
	return append(b, content...), nil
}

// ParseDecisionRequest reads what AppendDecisionRequest made. The input of a Document shares the memory of the
// payload.
func ParseDecisionRequest(payload []byte) (DecisionRequest, error) {
	head, n := protowire.ConsumeBytes(payload)
	m := &wirepb.DecisionRequest{}
	if n < 0 || unmarshal(head, m) != nil {
		return DecisionRequest{}, ErrForm
	}
	q := DecisionRequest{
		ID: string(m.GetId()), Time: time.Unix(0, m.GetTime()), Timeout: time.Duration(m.GetTimeout()), Plain: m.GetPlain(), About: m.GetAbout(),
	}
	if m.GetDocument() == nil {
		q.Asked = Check(payload[n:])
		return q, nil
	}
	var err error
	q.Asked, err = documentOf(m.GetDocument(), payload[n:])
	return q, err
}

func (Check) facts() (*wirepb.Facts, error) { return nil, nil }

func (c Check) content() string { return string(c) }

func (d Document) content() string {
	if d.Unreadable != nil {
		return d.Unreadable.Reason
	}
	return string(d.Input)
}

func (d Document) facts() (*wirepb.Facts, error) {
	f := d.Facts
	m := &wirepb.Facts{
		Operation: []byte(f.Operation), Method: []byte(f.Method), Host: []byte(f.Host), Path: []byte(f.Path), Principal: []byte(f.Principal),
		ProjectId: []byte(f.Project.ID), ProjectName: []byte(f.Project.Name), ProjectDomain: []byte(f.Project.Domain),
	}
	if d.Unreadable != nil {
		m.Unreadable = []byte(cmp.Or(d.Unreadable.Failure, authz.FailureRequest))
	}
	var err error
	if f.Reservation != nil {
		m.Reservation, err = json.Marshal(f.Reservation)
	}
	return m, err
}

// documentOf returns the Document of facts, and of what follows them.
func documentOf(m *wirepb.Facts, content []byte) (d Document, err error) {
	d.Facts = Facts{
		Operation: authz.Operation(m.GetOperation()), Method: string(m.GetMethod()), Host: string(m.GetHost()), Path: string(m.GetPath()),
		Principal: string(m.GetPrincipal()),
		Project:   authz.Project{ID: string(m.GetProjectId()), Name: string(m.GetProjectName()), Domain: string(m.GetProjectDomain())},
	}
	if m.GetReservation() != nil {
		if d.Facts.Reservation, err = parseReservation(string(m.GetReservation())); err != nil {
			return Document{}, ErrForm
		}
	}
	if failure := m.GetUnreadable(); len(failure) > 0 {
		d.Unreadable = &authz.BadRequest{Reason: string(content), Failure: authz.Failure(failure)}
	} else {
		d.Input = content
	}
	return d, nil
}

// parseReservation reads the JSON of a reservation, whose numbers stay as they are written.
func parseReservation(text string) (*authz.Reservation, error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	r := &authz.Reservation{}
	if err := decoder.Decode(r); err != nil {
		return nil, err
	}
	return r, nil
}
