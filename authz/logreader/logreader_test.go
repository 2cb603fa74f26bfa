package logreader_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"understudy/authz/logreader"
)

// read reads a file whole. What is broken is in order, with the numbers of the records.
func read(t testing.TB, file io.Reader) (p logreader.Parsed) {
	t.Helper()
	scanner, err := logreader.NewScanner(file)
	if err != nil {
		t.Fatal(err)
	}
	for {
		record, err := scanner.Next()
		var broken *logreader.BrokenError
		switch {
		case errors.As(err, &broken):
			p.Broken = append(p.Broken, broken.Error())
		case errors.Is(err, io.EOF):
			return p
		case err != nil:
			t.Fatal(err)
		default:
			before := len(p.Broken)
			p.Parse(slices.Clone(record.Text))
			for i := before; i < len(p.Broken); i++ {
				p.Broken[i] = (&logreader.BrokenError{Number: record.Number, Reason: p.Broken[i]}).Error()
			}
		}
	}
}

// event is a decision on one line, as OPA and this project write it.
const event = `{"labels":{"id":"x"},"decision_id":"d1","bundles":{"web":{"revision":"r1"}},"path":"envoy/authz/allow",` +
	`"input":{"method":"GET","n":1.50},"result":{"allowed":false},"erased":["/input/a"],"masked":["/input/b"],"metrics":{"x":1},` +
	`"timestamp":"2026-05-04T03:02:01.5Z"}`

// inside is event as a text within JSON.
var inside = strings.ReplaceAll(event, `"`, `\"`)

// TestForms reads one decision in each form in which there may be one.
func TestForms(t *testing.T) {
	console := strings.Replace(event, "{", `{"level":"info","msg":"Decision Log","time":"2026-05-04T03:02:02Z","type":"openpolicyagent.org/decision_logs",`, 1)
	plain := `{"kvlistValue":{"values":[{"key":"decision_id","value":{"stringValue":"d1"}},{"key":"path","value":{"stringValue":"envoy/authz/allow"}},
{"key":"timestamp","value":{"stringValue":"2026-05-04T03:02:01.5Z"}},{"key":"bundles","value":{"kvlistValue":{"values":[{"key":"web","value":{"kvlistValue":{"values":[{"key":"revision","value":{"stringValue":"r1"}}]}}}]}}},
{"key":"input","value":{"kvlistValue":{"values":[{"key":"method","value":{"stringValue":"GET"}},{"key":"n","value":{"doubleValue":1.50}}]}}},
{"key":"result","value":{"kvlistValue":{"values":[{"key":"allowed","value":{"boolValue":false}}]}}},
{"key":"erased","value":{"arrayValue":{"values":[{"stringValue":"/input/a"}]}}},{"key":"masked","value":{"arrayValue":{"values":[{"stringValue":"/input/b"}]}}}]}}`
	otlp := func(body string) string {
		return `{"resourceLogs":[{"resource":{},"scopeLogs":[{"scope":{},"logRecords":[{"timeUnixNano":"1","eventName":"understudy.decision","body":` +
			strings.ReplaceAll(body, "\n", "") + `}]}]}]}`
	}
	for name, file := range map[string]string{
		"a line":                   event,
		"a line with an end":       "\r\n" + event + "\r\n\n",
		"an array":                 "[" + event + "]",
		"an array on many lines":   "[\n" + strings.ReplaceAll(event, `,"`, ",\n\"") + "\n]\n",
		"arrays":                   "[]\n[ ]" + "[" + event + "]" + "[]",
		"OPA's console":            console,
		"OPA's json-pretty":        indented(t, console) + "\n",
		"json-pretty, without end": "\n" + indented(t, console),
		"kubectl's prefix":         "[pod/web-1/opa] " + console,
		"a CRI log":                "2026-05-04T03:02:03.1Z stdout F " + console,
		"Docker's envelope":        `{"log":"` + strings.ReplaceAll(strings.ReplaceAll(console, `\`, `\\`), `"`, `\"`) + `\n","stream":"stdout","time":"2026-05-04T03:02:03Z"}`,
		"OTLP, the body a text":    otlp(`{"stringValue":"` + inside + `"}`),
		"OTLP, the body a map":     otlp(plain),
		"OTLP in an array":         "[" + otlp(`{"stringValue":"`+inside+`"}`) + "]",
		"members that come again":  strings.Replace(event, `{"labels"`, `{"path":"other","labels"`, 1),
		"names with escapes":       strings.Replace(event, `"path"`, `"pa\u0074h"`, 1),
		"the clock of the request": strings.Replace(strings.Replace(event, "01.5Z", "09Z", 1), `{"labels"`, `{"nd_builtin_cache":{"time.now_ns":{"[]":1777863721500000000}},"labels"`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			for _, zipped := range []bool{false, true} {
				in := []byte(file)
				if zipped {
					in = compressed(t, in)
				}
				got := read(t, bytes.NewReader(in))
				if len(got.Entries) != 1 || got.Other != 0 || len(got.Broken) != 0 {
					t.Fatalf("%d entries, %d others, broken %q; want 1 entry", len(got.Entries), got.Other, got.Broken)
				}
				e := got.Entries[0]
				want := logreader.Entry{
					DecisionID: "d1", Time: time.Date(2026, 5, 4, 3, 2, 1, 5e8, time.UTC), Path: "envoy/authz/allow",
					Input: logreader.Document(`{"method":"GET","n":1.50}`), Result: logreader.Document(`{"allowed":false}`),
					Erased: logreader.Document(`["/input/a"]`), Masked: logreader.Document(`["/input/b"]`), Bundles: logreader.Document(`{"web":{"revision":"r1"}}`),
				}
				if diff := cmp.Diff(want, e, cmp.Transformer("JSON", compact)); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			}
		})
	}
}

// indented is JSON over several lines.
func indented(t testing.TB, text string) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, []byte(text), "", "  "); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestObjectsOverSeveralLines are records like lines, among these. One that is too long or not closed is broken, and
// what follows it is read.
func TestObjectsOverSeveralLines(t *testing.T) {
	pretty := indented(t, event)
	long := strings.Replace(pretty, "{\n", "{\n"+strings.Repeat("  \"x\": \""+strings.Repeat("y", 1<<20)+"\",\n", 17), 1)
	got := read(t, strings.NewReader(strings.Join([]string{
		"OPA starts", pretty, event, "{ no JSON", "{", "  \"a\": 1,", "}", pretty, long, pretty, "{", "  \"decision_id\": \"d\"",
	}, "\n")))
	lines := int64(strings.Count(pretty, "\n") + 1)
	want := []string{
		fmt.Sprintf("record %d: it is no JSON, or breaks off", lines+3), fmt.Sprintf("record %d: it is no JSON, or breaks off", lines+4),
		fmt.Sprintf("record %d: it has more than 16 MiB", 2*lines+7), fmt.Sprintf("record %d: it is no JSON, or breaks off", 4*lines+24),
	}
	if len(got.Entries) != 4 || got.Other != 1 || !slices.Equal(got.Broken, want) {
		t.Errorf("%d entries, %d others, broken %q; want 4, 1 and %q", len(got.Entries), got.Other, got.Broken, want)
	}
}

// compact is a document without white space.
func compact(d logreader.Document) string {
	var out bytes.Buffer
	if d == nil {
		return ""
	}
	if err := json.Compact(&out, d); err != nil {
		return "broken: " + err.Error()
	}
	return out.String()
}

func compressed(t testing.TB, content []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestCheckRequests reads lines with requests alone.
func TestCheckRequests(t *testing.T) {
	line := `{"attributes":{"request":{"time":"2026-05-04T03:02:01Z","http":{"method":"GET"}}}}`
	got := read(t, strings.NewReader(line+"\n"+line+"\n"))
	if len(got.Entries) != 2 || string(got.Entries[0].Check) != line || !got.Entries[0].Time.Equal(time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)) {
		t.Errorf("got %+v; want two checks of 03:02:01", got)
	}
}

// TestOthersAndBroken distinguishes what is no decision from what cannot be read.
func TestOthersAndBroken(t *testing.T) {
	file := strings.Join([]string{
		"listening on :8181",
		`{"level":"info","msg":"Received request.","req_id":1,"decision_id":"x"}`,
		event,
		event[:100],
		`{"decision_id":"d"}`,
		"\x00\x01{\xff",
		`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"eventName":"understudy.preview","body":{"stringValue":"{}"}},{"body":{"stringValue":"{"}}]}]}]}`,
		`{"resourceLogs":null}`, `{"log":"{\"log\":\"{\\\"log\\\":\\\"{}\\\"}\"}"}`, `{"attributes":1}`, `[1]`,
		event,
	}, "\n")
	got := read(t, strings.NewReader(file))
	want := []string{
		"record 4: it is no JSON, or breaks off", "record 5: it is a decision without an input document, a path or a query",
		"record 6: it is no JSON, or breaks off", "record 7: it is no JSON, or breaks off",
	}
	if diff := cmp.Diff(want, got.Broken); diff != "" || len(got.Entries) != 2 || got.Other != 6 {
		t.Errorf("%d entries, %d others; want 2 and 6; broken, -want +got:\n%s", len(got.Entries), got.Other, diff)
	}
}

// TestBrokenFiles reads files as far as they can be read.
func TestBrokenFiles(t *testing.T) {
	long := `{"decision_id":"` + strings.Repeat("x", logreader.MaxRecord) + `"}`
	zipped := compressed(t, []byte(strings.Repeat(event+"\n", 1000)))
	for name, c := range map[string]struct {
		file          []byte
		least, broken int
	}{
		"a line that is too large":     {[]byte(event + "\n" + long + "\n" + event), 2, 1},
		"the last line is too large":   {[]byte(event + "\n" + long), 1, 1},
		"an element that is too large": {[]byte("[" + event + "," + long + "," + event + "]"), 2, 1},
		"an array that breaks off":     {[]byte("[" + event + "," + event[:50]), 1, 1},
		"an array without its end":     {[]byte("[" + event + ","), 1, 0},
		"gzip that breaks off":         {zipped[:len(zipped)-100], 0, 1},
		"gzip that is damaged":         {slices.Concat(zipped[:len(zipped)/2], []byte{0xff, 0xff, 0xff, 0xff}, zipped[len(zipped)/2:]), 0, 1},
		"nothing":                      {nil, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := read(t, bytes.NewReader(c.file))
			if len(got.Entries) < c.least || len(got.Broken) != c.broken {
				t.Errorf("%d entries, broken %q; want at least %d entries and %d broken", len(got.Entries), got.Broken, c.least, c.broken)
			}
		})
	}
}

// TestReaderFails returns the error of a file that cannot be read.
func TestReaderFails(t *testing.T) {
	broken := errors.New("broken")
	scanner, err := logreader.NewScanner(io.MultiReader(strings.NewReader(event+"\n"), failing{broken}))
	for err == nil {
		_, err = scanner.Next()
	}
	if !errors.Is(err, broken) {
		t.Errorf("the error is %v; want that of the reader", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// FuzzScanner reads anything: it ends, and an entry's documents are JSON.
func FuzzScanner(f *testing.F) {
	f.Add([]byte(event + "\n" + event))
	f.Add([]byte("[" + event + "," + event + "]"))
	f.Add([]byte(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"` + inside + `"}}]}]}]}`))
	f.Add(compressed(f, []byte(event)))
	f.Fuzz(func(t *testing.T, file []byte) {
		scanner, err := logreader.NewScanner(bytes.NewReader(file))
		if err != nil {
			return
		}
		var p logreader.Parsed
		for last := int64(0); ; {
			record, err := scanner.Next()
			var broken *logreader.BrokenError
			if errors.As(err, &broken) {
				continue
			}
			if err != nil {
				return
			}
			if record.Number <= last {
				t.Fatalf("record %d follows record %d", record.Number, last)
			}
			last = record.Number
			p.Reset()
			p.Parse(record.Text)
			for _, e := range p.Entries {
				for _, d := range []logreader.Document{e.Input, e.Check, e.Result, e.Error, e.Erased, e.Masked, e.Bundles} {
					if d != nil && !json.Valid(d) {
						t.Fatalf("no JSON: %q", d)
					}
				}
			}
		}
	})
}

// FuzzDocument holds what is found in a document against encoding/json.
func FuzzDocument(f *testing.F) {
	f.Add([]byte(event))
	f.Add([]byte(`{"a":{"\u0061":[1,-2.5e3,"\"]}",{},[],null,true]},"a":{"x" : [ ] } }`))
	f.Add([]byte("{\"\xff\":1}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var want any
		if !json.Valid(text) {
			return
		}
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		if err := decoder.Decode(&want); err != nil {
			return
		}
		if diff := cmp.Diff(want, rebuilt(t, logreader.Document(bytes.TrimSpace(text)))); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

// rebuilt is a document put together again from its parts.
func rebuilt(t *testing.T, d logreader.Document) any {
	switch d.Kind() {
	case '{':
		out := make(map[string]any)
		for name, value := range d.Members() {
			out[string(name)] = rebuilt(t, value)
		}
		for name, value := range out {
			if got := rebuilt(t, d.At(name)); !cmp.Equal(got, value) {
				t.Errorf("at %q is %v; want %v", name, got, value)
			}
		}
		return out
	case '[':
		out := []any{}
		for element := range d.Elements() {
			out = append(out, rebuilt(t, element))
		}
		return out
	case '"':
		return d.Text()
	}
	value, err := d.Value()
	if err != nil {
		t.Errorf("%q: %v", d, err)
	}
	return value
}

// BenchmarkParse reads entries of 2 KB.
func BenchmarkParse(b *testing.B) {
	headers := make(map[string]string)
	for i := range 20 {
		headers[fmt.Sprintf("x-header-%d", i)] = strings.Repeat("v", 60)
	}
	encoded, err := json.Marshal(map[string]any{
		"decision_id": "d", "timestamp": "2026-05-04T03:02:01Z", "path": "envoy/authz/allow", "result": true,
		"input": map[string]any{"attributes": map[string]any{"request": map[string]any{"http": map[string]any{"method": "GET", "headers": headers}}}},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(encoded)))
	b.ReportAllocs()
	var p logreader.Parsed
	for b.Loop() {
		p.Reset()
		p.Parse(encoded)
	}
}
