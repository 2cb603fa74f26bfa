package body_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"understudy/authz"
	"understudy/authz/extauthz/body"
	"understudy/authz/extauthz/checktest"
)

const multipartType = "multipart/form-data; boundary=B"

// parser knows the gRPC methods of the health service.
func parser(t testing.TB) body.Parser {
	t.Helper()
	messages, err := body.NewMessages(checktest.HealthService())
	if err != nil {
		t.Fatal(err)
	}
	return body.Parser{Messages: messages}
}

// sent is a body of a type, sent as bytes.
func sent(contentType, content string) body.Sent {
	return body.Sent{Bytes: content, ContentType: contentType, Path: "/grpc.health.v1.Health/Check"}
}

// message is a gRPC message with its frame.
func message(content string) string {
	return string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(content)))) + content
}

// TestWeights: a body never has more values than its weight says.
func TestWeights(t *testing.T) {
	p := parser(t)
	for name, s := range map[string]body.Sent{
		"numbers":   sent("application/json", `[1,2,3]`),
		"names":     sent("application/json", `{"a":{"b":[]},"c":"d,e[{\",","e":{}}`),
		"one":       sent("application/json", `"\\"`),
		"form":      sent("application/x-www-form-urlencoded", "a=b&a&c="),
		"multipart": sent(multipartType, "--B\r\nContent-Disposition: form-data; name=\"a\"\r\nContent-Type: application/json\r\n\r\n[{},{},{}]\r\n--B--\r\n"),
		"message":   sent("application/grpc", message(strings.Repeat("\x0a\x01a", 3))),
	} {
		found, err := p.Find(s)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if weight, value, ok := found.Weigh(); !ok || weight < valuesIn(value) || weight > 20*valuesIn(value) {
			t.Errorf("%s: weight %d of %d values, parsed: %v", name, weight, valuesIn(value), ok)
		}
	}
}

// TestContentTypes: how a body is read goes by one type; of several, nobody knows which one
// the upstream takes.
func TestContentTypes(t *testing.T) {
	p := parser(t)
	for contentType, want := range map[string]struct {
		parsed, refused bool
	}{
		"application/json":                             {parsed: true},
		"Application/JSON; charset=utf-8":              {parsed: true},
		"application/vnd.api; as=application/json":     {parsed: true},
		"application/json, application/json":           {parsed: true},
		"application/json,Application/JSON":            {parsed: true},
		`application/json; profile="a,b"`:              {parsed: true},
		`application/json; profile="a\",b"`:            {parsed: true},
		"text/plain":                                   {},
		"":                                             {},
		"application/json,text/plain":                  {refused: true},
		"text/plain, application/json":                 {refused: true},
		"application/json,application/grpc":            {refused: true},
		"application/json, application/json; a=b":      {refused: true},
		"application/json,":                            {refused: true},
		`text/plain; a="b", application/json`:          {refused: true},
		`text/plain; a="b\\", application/json; c="d"`: {refused: true},
	} {
		found, err := p.Find(sent(contentType, `{"a":1}`))
		var bad *authz.BadRequest
		if refused := errors.As(err, &bad); refused != want.refused {
			t.Errorf("%s: error %v, want it refused: %v", contentType, err, want.refused)
		}
		if _, _, ok := found.Weigh(); ok != want.parsed {
			t.Errorf("%s: parsed: %v, want %v", contentType, ok, want.parsed)
		}
	}
	if _, err := p.Find(body.Sent{ContentType: "a,b"}); err != nil {
		t.Errorf("a request without a body is refused: %v", err)
	}
}

// TestUnreadableMessages: a gRPC message that cannot be read counts as truncated, so that a
// policy does not see that there is none. Of a method that is not known no message is read.
func TestUnreadableMessages(t *testing.T) {
	const known, unknown = "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Other"
	whole, compressed := message("\x0a\x01a"), "\x01"+message("abc")[1:]
	for name, tt := range map[string]struct {
		sent              body.Sent
		truncated, parsed bool
	}{
		"whole":                              {sent: body.Sent{Bytes: whole, Path: known}, parsed: true},
		"text beside bytes":                  {sent: body.Sent{Bytes: whole, Text: "x", Path: known}, parsed: true},
		"compressed":                         {sent: body.Sent{Bytes: compressed, Path: known}, truncated: true},
		"text":                               {sent: body.Sent{Text: whole, Path: known}, truncated: true},
		"cut off":                            {sent: body.Sent{Bytes: whole[:6], Path: known}, truncated: true},
		"compressed, of an unknown method":   {sent: body.Sent{Bytes: compressed, Path: unknown}},
		"text, of an unknown method":         {sent: body.Sent{Text: whole, Path: unknown}},
		"whole, of an unknown method":        {sent: body.Sent{Bytes: whole, Path: unknown}},
		"nothing":                            {sent: body.Sent{Path: known}},
		"compressed, one that Envoy cut off": {sent: body.Sent{Bytes: compressed, Partial: "true", Path: unknown}, truncated: true},
	} {
		tt.sent.ContentType = "application/grpc+proto"
		p := parser(t)
		found, err := p.Find(tt.sent)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, _, parsed := found.Weigh(); found.Truncated != tt.truncated || parsed != tt.parsed {
			t.Errorf("%s: truncated %v, parsed %v; want %v, %v", name, found.Truncated, parsed, tt.truncated, tt.parsed)
		}
	}
	none := body.Parser{}
	if found, err := none.Find(sent("application/grpc", compressed)); err != nil || found.Truncated {
		t.Errorf("without a descriptor set no message is read, so none is truncated: %v, %v", found.Truncated, err)
	}
}

// TestDuplicateKeys: an object that has a key twice is refused, at every depth and however the key is
// written, unless it is allowed: then the last value counts.
func TestDuplicateKeys(t *testing.T) {
	for content, duplicate := range map[string]bool{
		`{"a":1,"a":1}`:                       true,
		`{"a":1,"\u0061":2}`:                  true,
		`{"a":1,"b":{"c":[{"x":[],"x":{}}]}}`: true,
		`[{},{"":1,"":2}]`:                    true,
		"{\"a\xff\":1,\"a\xfe\":2}":           true, // a policy sees one key, with U+FFFD
		`{"a":1,"A":2,"b":{"a":3}}`:           false,
		`[{"a":1},{"a":2}]`:                   false,
		`{"a:":":","b":"\":{","c":"\\"}`:      false,
		`{"a":{}}`:                            false,
		`"a:a"`:                               false,
	} {
		for _, s := range []body.Sent{
			sent("application/json", content),
			sent(multipartType, "--B\r\nContent-Disposition: form-data; name=\"a\"\r\nContent-Type: application/json\r\n\r\n"+content+"\r\n--B--\r\n"),
		} {
			refuses, allows := body.Parser{}, body.Parser{DuplicateKeys: true}
			bad := (*authz.BadRequest)(nil)
			if err := valueError(t, refuses, s); errors.As(err, &bad) != duplicate || duplicate && bad.Failure != authz.FailureDuplicateKey {
				t.Errorf("%s as %s: error %v, want it refused: %v", content, s.ContentType, err, duplicate)
			}
			if err := valueError(t, allows, s); err != nil {
				t.Errorf("%s as %s: it is allowed, and the error is %v", content, s.ContentType, err)
			}
		}
	}
}

// valueError is the error of making parsed_body of a body that is found.
func valueError(t testing.TB, p body.Parser, s body.Sent) error {
	t.Helper()
	found, err := p.Find(s)
	if err != nil {
		t.Fatal(err)
	}
	_, err = found.Value(nil)
	return err
}

// FuzzDuplicateKeys holds what is refused against a decoder that reads token by token.
func FuzzDuplicateKeys(f *testing.F) {
	for _, seed := range []string{`{"a":[{"b":":","b":1}]}`, `{"a":1,"\u0061":2}`, `[{},{"a":{"a":{}}}]`, `{"":"\\\"","":0}`, "{\"\xff\":1,\"\ufffd\":2}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content string) {
		if !json.Valid([]byte(content)) {
			return
		}
		bad := (*authz.BadRequest)(nil)
		refused := errors.As(valueError(t, body.Parser{}, sent("application/json", content)), &bad) && bad.Failure == authz.FailureDuplicateKey
		if allowed := valueError(t, body.Parser{DuplicateKeys: true}, sent("application/json", content)); allowed != nil {
			return // it is refused for something else
		}
		if twice := checktest.HasKeyTwice(content); refused != twice {
			t.Errorf("%q is refused: %v, want %v", content, refused, twice)
		}
	})
}

// FuzzFind: whatever a body is, it never has more values than its weight says, and no error
// quotes it.
func FuzzFind(f *testing.F) {
	f.Add("application/json", "1", []byte(`{"a": 1e9999}`))
	f.Add("multipart/form-data; boundary=B", "", []byte("--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\none\r\n--B--\r\n"))
	f.Add("application/grpc", "", []byte("\x00\x00\x00\x00\x03\x0a\x01a"))
	f.Add("application/x-www-form-urlencoded", "-1", []byte("a=%zz;"))
	f.Add("application/x-www-form-urlencoded", "", []byte("a"))
	f.Add("application/json", "", []byte(`[{},{"a":"\\\"["}]`))
	p := parser(f)
	f.Fuzz(func(t *testing.T, contentType, length string, content []byte) {
		s := sent(contentType, string(content))
		s.ContentLength, s.HasLength = length, length != ""
		found, err := p.Find(s)
		if err == nil {
			_, err = found.Value(nil)
		}
		if err != nil && len(content) > 5 && strings.Contains(err.Error(), string(content)) {
			t.Errorf("the reason quotes the body: %v", err)
		}
		if weight, value, ok := found.Weigh(); ok && weight < valuesIn(value) {
			t.Errorf("a body of %d values has the weight %d", valuesIn(value), weight)
		}
		if found.Truncated {
			if value, _ := found.Value(nil); value != nil {
				t.Error("a truncated body was parsed")
			}
		}
	})
}

// valuesIn counts a document and all that is in it.
func valuesIn(document any) int {
	n := 1
	switch v := document.(type) {
	case []any:
		for _, element := range v {
			n += valuesIn(element)
		}
	case []string:
		n += len(v)
	case map[string]any:
		for _, field := range v {
			n += valuesIn(field)
		}
	}
	return n
}

// BenchmarkDuplicateKeys makes parsed_body of 8 KiB of JSON, with and without looking for duplicate keys.
func BenchmarkDuplicateKeys(b *testing.B) {
	content := `{"items":[` + strings.Repeat(`{"sku":"a-1234","name":"a thing","price":12.5,"tags":["x","y"]},`, 130) + `{}]}`
	for name, p := range map[string]body.Parser{"refused": {}, "allowed": {DuplicateKeys: true}} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(content)))
			for b.Loop() {
				if err := valueError(b, p, sent("application/json", content)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
