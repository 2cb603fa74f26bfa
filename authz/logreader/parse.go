package logreader

import (
	"bytes"
	"encoding/json"
)

// Parsed is what records were found to be. It is reused from record to record, and used by one
// goroutine.
type Parsed struct {
	// Entries are the decisions.
	Entries []Entry
	// Other is the number of records that are no decisions: other lines of a log.
	Other int
	// Broken are the reasons for which parts of the record cannot be read.
	Broken []string
}

// Reset forgets everything.
func (p *Parsed) Reset() { p.Entries, p.Other, p.Broken = p.Entries[:0], 0, p.Broken[:0] }

// The reasons for which a record is broken.
const (
	reasonJSON  = "it is no JSON, or breaks off"
	reasonEvent = "it is a decision without an input document, a path or a query"
)

// maxEnvelopes is how many envelopes may be around an event.
const maxEnvelopes = 3

// Parse adds what a record is. The entries share the memory of the text, which must not be
// modified while they are in use.
func (p *Parsed) Parse(text []byte) { p.parse(text, 0) }

func (p *Parsed) parse(text []byte, envelopes int) {
	text = behindPrefix(text)
	switch {
	case text == nil || envelopes > maxEnvelopes:
		p.Other++
		return
	case !json.Valid(text):
		p.Broken = append(p.Broken, reasonJSON)
		return
	}
	p.addDocument(Document(bytes.TrimSpace(text)), envelopes)
}

// behindPrefix returns the part of a line from its first brace on: what stands before it is
// what the runtime of a container or kubectl puts there. It is nil for a line without one.
func behindPrefix(text []byte) []byte {
	if i := bytes.IndexByte(text, '{'); i >= 0 {
		return text[i:]
	}
	return nil
}

// consoleMessage is the message of the lines of OPA's console that are decisions.
const consoleMessage = "Decision Log"

// form is what an object was recognized as, by its members.
type form struct {
	id, stamped, asked, message, other bool
	// docker, resource, attributes and answers are members that say what it is.
	docker, resource, attributes, answers Document
	// printed is when the console printed it.
	printed Document
}

// addMember notes what a member says of the form.
func (f *form) addMember(name []byte, value Document) {
	switch string(name) {
	case "decision_id":
		f.id = true
	case "timestamp":
		f.stamped = true
	case "input", "result", "path", "query":
		f.asked = true
	case "msg":
		f.message = value.Text() == consoleMessage
		f.other = !f.message
	case "time":
		f.printed = value
	case "log":
		f.docker = value
	case "resourceLogs":
		f.resource = value
	case "attributes":
		f.attributes = value
	case "nd_builtin_cache":
		f.answers = value
	}
}

// addDocument adds an object.
func (p *Parsed) addDocument(d Document, envelopes int) {
	var e Entry
	var f form
	for name, value := range d.Members() {
		f.addMember(name, value)
		e.addMember(name, value)
	}
	switch {
	case f.resource != nil:
		p.addResources(f.resource, envelopes)
	case f.message, !f.other && (f.id || f.stamped && f.asked):
		if e.Time.IsZero() {
			e.Time = timeOf(f.printed.Text())
		}
		e.addClock(f.answers)
		p.addEvent(e)
	case f.other:
		p.Other++
	case f.docker.Kind() == '"':
		p.parse([]byte(f.docker.Text()), envelopes+1)
	case f.attributes.Kind() == '{':
		p.Entries = append(p.Entries, Entry{Check: d, Time: timeOf(f.attributes.At("request", "time").Text())})
	default:
		p.Other++
	}
}

// addEvent adds an event that says at least what was asked.
func (p *Parsed) addEvent(e Entry) {
	if e.Input == nil && e.Path == "" && e.Query == "" {
		p.Broken = append(p.Broken, reasonEvent)
		return
	}
	p.Entries = append(p.Entries, e)
}
