package logreader

import (
	"encoding/json"
	"strconv"
)

// eventDecision is the event name of a decision in OTLP; records of other names are none.
const eventDecision = "understudy.decision"

// addResources adds the records of an ExportLogsServiceRequest in OTLP's JSON:
//
//	resourceLogs[] → scopeLogs[] → logRecords[] → body
func (p *Parsed) addResources(resources Document, envelopes int) {
	for resource := range resources.Elements() {
		for scope := range resource.At("scopeLogs").Elements() {
			for record := range scope.At("logRecords").Elements() {
				p.addRecord(record, envelopes)
			}
		}
	}
}

// addRecord adds a record: its body is an event, as a text with JSON or as a map that a
// collector has made of it.
func (p *Parsed) addRecord(record Document, envelopes int) {
	if name := record.At("eventName").Text(); name != "" && name != eventDecision {
		p.Other++
		return
	}
	body := record.At("body")
	if text := body.At("stringValue"); text != nil {
		p.parse([]byte(text.Text()), envelopes+1)
		return
	}
	if body.At("kvlistValue") == nil {
		p.Other++
		return
	}
	plain, ok := appendPlain(nil, body, 0)
	if !ok {
		p.Broken = append(p.Broken, "the body of an OTLP record is nested too deep, or has a value of no known type")
		return
	}
	p.parse(plain, envelopes+1)
}

// maxBodyDepth bounds the nesting of a body that is a map.
const maxBodyDepth = 1000

// appendPlain appends the JSON that an AnyValue stands for.
func appendPlain(b []byte, value Document, depth int) ([]byte, bool) {
	if depth > maxBodyDepth {
		return b, false
	}
	for kind, v := range value.Members() {
		switch string(kind) {
		case "stringValue", "boolValue", "doubleValue", "bytesValue":
			return append(b, v...), true
		case "intValue": // a text, since it has 64 bits
			if _, err := strconv.ParseInt(v.Text(), 10, 64); err == nil {
				return append(b, v.Text()...), true
			}
			return append(b, v...), v.Kind() != '"'
		case "arrayValue":
			return appendArray(b, v.At("values"), depth)
		case "kvlistValue":
			return appendObject(b, v.At("values"), depth)
		}
		return b, false
	}
	return append(b, "null"...), true
}

func appendArray(b []byte, values Document, depth int) ([]byte, bool) {
	b = append(b, '[')
	var ok bool
	first := true
	for v := range values.Elements() {
		if !first {
			b = append(b, ',')
		}
		if b, ok = appendPlain(b, v, depth+1); !ok {
			return b, false
		}
		first = false
	}
	return append(b, ']'), true
}

func appendObject(b []byte, pairs Document, depth int) ([]byte, bool) {
	b = append(b, '{')
	var ok bool
	first := true
	for pair := range pairs.Elements() {
		if !first {
			b = append(b, ',')
		}
		key, err := json.Marshal(pair.At("key").Text())
		if err != nil {
			return b, false
		}
		b = append(append(b, key...), ':')
		if b, ok = appendPlain(b, pair.At("value"), depth+1); !ok {
			return b, false
		}
		first = false
	}
	return append(b, '}'), true
}
