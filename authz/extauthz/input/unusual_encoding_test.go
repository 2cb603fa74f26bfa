package input_test

import (
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// Wires that no encoder writes, but any client of the port can.

// in is a field that holds bytes: a text or a message of further fields.
func in(number protowire.Number, parts ...string) string {
	content := ""
	for _, part := range parts {
		content += part
	}
	return string(protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), content))
}

// num is a field that holds a number.
func num(number protowire.Number, value uint64) string {
	return string(protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), value))
}

// oddHTTP is a request with fields of its HTTP message.
func oddHTTP(fields ...string) string { return in(1, in(4, in(2, fields...))) }

func header(name, value string) string { return in(3, in(1, name), in(2, value)) }

// claims is a request with these fields in the payload of a verified token.
func claims(fields ...string) string {
	payload := in(1, in(1, "payload"), in(2, in(5, fields...)))
	return in(1, in(11, in(1, in(1, "envoy.filters.http.jwt_authn"), in(2, payload))))
}

func claim(name, value string) string { return in(1, in(1, name), value) }

// text is the value of a claim.
func text(s string) string { return in(2, in(3, s)) }

// The numbers of fields of the HTTP message.
const (
	oddPath, oddMethod  = 4, 2
	oddSize             = 9
	oddBody, oddRawBody = 11, 12
)

// plainText is a value in metadata.
var plainText = in(2, in(3, "x"))

// oddWires :: what is odd → the request.
var oddWires = map[string]string{
	"attributes twice":        oddHTTP(in(oddPath, "/a")) + oddHTTP(in(oddMethod, "GET")),
	"attributes, then none":   oddHTTP(in(oddPath, "/a")) + in(1),
	"request twice":           in(1, in(4, in(2, in(oddPath, "/a"))), in(4, in(2, in(oddPath, "/b")))),
	"http twice":              in(1, in(4, in(2, in(oddPath, "/a"), header("a", "b")), in(2, header("c", "d")))),
	"path twice":              oddHTTP(in(oddPath, "/admin"), in(oddPath, "/public")),
	"path, then none":         oddHTTP(in(oddPath, "/admin"), in(oddPath, ""), header(":path", "/public")),
	"header twice":            oddHTTP(header("authorization", "y"), header("authorization", "x")),
	"header of two names":     oddHTTP(in(3, in(1, "a"), in(1, "authorization"), in(2, "x"))),
	"header of two values":    oddHTTP(in(3, in(1, "authorization"), in(2, "y"), in(2, "x"))),
	"header backwards":        oddHTTP(in(3, in(2, "x"), in(1, "authorization"))),
	"header without a name":   oddHTTP(in(3, in(2, "x")), header("", "y")),
	"header without a value":  oddHTTP(in(3, in(1, "authorization"))),
	"empty header":            oddHTTP(in(3)),
	"header in capitals":      oddHTTP(header("Content-Type", "application/json"), header("AUTHORIZATION", "x"), in(oddBody, `{"a":1}`)),
	"header of long s":        oddHTTP(header("authori\u017fation", "x"), header("content-type", "application/j\u017fon"), in(oddBody, `{"a":1}`)),
	"content type twice":      oddHTTP(header("content-type", "text/plain"), header("content-type", "application/json"), in(oddBody, `{"a":1}`)),
	"partial body in capital": oddHTTP(header("x-envoy-auth-partial-body", "TRUE"), header("content-type", "application/json"), in(oddBody, `{"a":`)),
	"both bodies":             oddHTTP(header("content-type", "application/json"), in(oddBody, `{"a":1}`), in(oddRawBody, `{"a":2}`)),
	"body, then none":         oddHTTP(header("content-type", "application/json"), in(oddBody, `{"a":1}`), in(oddBody), in(oddRawBody, `{"a":2}`)),
	"raw body of no text":     oddHTTP(header("content-type", "application/json"), in(oddRawBody, "{\"a\":\"\xff\"}")),
	"body with a mark":        oddHTTP(header("content-type", "application/json"), in(oddBody, "\ufeff{\"a\":1}")),
	"body of two names":       oddHTTP(header("content-type", "application/json"), in(oddBody, `{"a":2,"a":1}`)),
	"body and more":           oddHTTP(header("content-type", "application/json"), in(oddBody, `{"a":1} {"a":2}`)),
	"length below the body":   oddHTTP(header("content-type", "application/json"), header("content-length", "-1"), in(oddBody, `{"a":1}`)),
	"length above the body":   oddHTTP(header("content-type", "application/json"), header("content-length", "99"), in(oddBody, `{"a":1}`)),
	"length of nothing":       oddHTTP(header("content-type", "application/json"), header("content-length", ""), in(oddBody, `{"a":1}`)),
	"size in long form":       oddHTTP(in(oddPath, "/a"), "\x48\x83\x80\x80\x00"),
	"size twice":              oddHTTP(num(oddSize, 3), num(oddSize, 0)),
	"size below zero":         oddHTTP(num(oddSize, 1<<64-1)),
	"size of least":           oddHTTP(num(oddSize, 1<<63)),
	"size of ten bytes":       oddHTTP("\x48\x83\x80\x80\x80\x80\x80\x80\x80\x80\x00"),
	"size of 65 bits":         oddHTTP("\x48\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"),
	"size of eleven bytes":    oddHTTP("\x48\x83\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00"),
	"tag of ten bytes":        oddHTTP("\xc8\x80\x80\x80\x80\x80\x80\x80\x80\x00\x03"),
	"length of ten bytes":     oddHTTP("\x22\x82\x80\x80\x80\x80\x80\x80\x80\x80\x00/a"),
	"size as text":            oddHTTP(in(oddSize, "3")),
	"unknown field":           oddHTTP(in(oddPath, "/a"), in(99, "x")),
	"field of number zero":    oddHTTP(in(oddPath, "/a"), "\x02\x01a"),
	"raw headers":             oddHTTP(header("authorization", "x"), in(13, in(1, in(1, "authorization"), in(2, "y")))),
	"address of two kinds":    in(1, in(2, in(1, in(1, in(2, "1.2.3.4"), num(3, 1)), in(2, in(1, "/sock"))))),
	"address merged":          in(1, in(2, in(1, in(1, in(2, "1.2.3.4")), in(1, num(3, 1))))),
	"port of two kinds":       in(1, in(2, in(1, in(1, in(2, "1.2.3.4"), num(3, 1), in(4, "http"))))),
	"destination twice":       in(1, in(2, in(1, in(1, num(3, 1)))), in(2, in(4, "p"))),
	"source twice":            in(1, in(1, in(4, "admin")), in(1, in(4, "a"))),
	"source, then none":       in(1, in(1, in(4, "a")), in(1, in(4, ""))),
	"label twice":             in(1, in(1, in(3, in(1, "a"), in(2, "b")), in(3, in(1, "a"), in(2, "c")))),
	"extension twice":         in(1, in(10, in(1, "policy"), in(2, "b")), in(10, in(1, "policy"), in(2, "a"))),
	"metadata name twice":     in(1, in(11, in(1, in(1, "a"), in(2, in(1, in(1, "b"), plainText))), in(1, in(1, "a"), in(2, in(1, in(1, "c"), plainText))))),
	"metadata value merged":   in(1, in(11, in(1, in(1, "a"), in(2, in(1, in(1, "b"), plainText)), in(2, in(1, in(1, "c"), plainText))))),
	"metadata of two kinds":   in(1, in(11, in(1, in(1, "a"), in(2, in(1, in(1, "b"), in(2, in(3, "x"), num(4, 1))))))),
	"metadata of no kind":     in(1, in(11, in(1, in(1, "a"), in(2, in(1, in(1, "b"), in(2)))))),
	"metadata twice":          in(1, in(11, in(1, in(1, "a"), in(2))), in(11, in(1, in(1, "b"), in(2)))),
	"claim twice":             claims(claim("sub", text("bob")), claim("sub", text("alice"))),
	"claim, then null":        claims(claim("sub", text("alice")), claim("sub", in(2, num(1, 0)))),
	"claim, then empty":       claims(claim("sub", text("alice")), claim("sub", in(2))),
	"claim without a value":   claims(in(1, in(1, "sub"))),
	"claim without a name":    claims(in(1, text("alice"))),
	"claim of two values":     claims(in(1, in(1, "sub"), text("bob"), text("alice"))),
	"claim of two structs":    claims(claim("nested", in(2, in(5, claim("a", text("x"))), in(5, claim("b", text("y")))))),
	"claim of two lists":      claims(claim("roles", in(2, in(6, in(1, in(3, "x"))), in(6, in(1, in(3, "admin")))))),
	"claim of two texts":      claims(claim("sub", in(2, in(3, "bob"), in(3, "alice")))),
	"claims merged":           claims(claim("sub", text("bob"))) + claims(claim("sub", text("alice"))),
	"claims below a text":     claims(claim("nested", text("a")), claim("roles", text("admin"))),
	"claims below a list":     claims(claim("nested", in(2, in(6, in(1, in(3, "x")))))),
	"claim that is minus 0":   claims(claim("sub", in(2, "\x11\x00\x00\x00\x00\x00\x00\x00\x80"))),
	"claim that is large":     claims(claim("sub", in(2, "\x11\x00\x00\x00\x00\x00\x00\xf0\x7e"))),
	"claim that is infinite":  claims(claim("sub", in(2, "\x11\x00\x00\x00\x00\x00\x00\xf0\x7f"))),
	"claim that is true":      claims(claim("sub", in(2, num(4, 1<<40)))),
	"claim of another null":   claims(claim("sub", in(2, num(1, 7)))),
	"Any twice":               in(1, in(11, in(2, in(1, "a"), in(2, in(1, "x"), in(1, "b"), in(2, "\xff"))))),
	"TLS twice":               in(1, in(12, in(1, "b")), in(12)),
	"time below zero":         in(1, in(4, in(1, num(1, 1<<64-1)))),
	"time of large nanos":     in(1, in(4, in(1, num(2, 1<<40+1)))),
	"path without a slash":    oddHTTP(in(oddPath, "a/b")),
	"path of slashes":         oddHTTP(in(oddPath, "///a//b/")),
	"path of encoded slashes": oddHTTP(in(oddPath, "/%2F/a%2fb/..%2f%2e%2e")),
	"path of encoded query":   oddHTTP(in(oddPath, "/a%3Fb=c/x/y?b=c")),
	"path of a query alone":   oddHTTP(in(oddPath, "?b=c")),
	"path of two queries":     oddHTTP(in(oddPath, "/a?b=c?b=d")),
	"path of bad escapes":     oddHTTP(in(oddPath, "/a%zz/b")),
	"path of no text":         oddHTTP(in(oddPath, "/a%ff/x/%c0%ae")),
	"path of a plus":          oddHTTP(in(oddPath, "/a+b/%2B?b=+c&b=%2B")),
	"query of a semicolon":    oddHTTP(in(oddPath, "/a?b=c;d=e")),
	"query of one name twice": oddHTTP(in(oddPath, "/a?b=d&b=c&B=c")),
	"path with a NUL":         oddHTTP(in(oddPath, "/a\x00/b%00")),
	"path in the header":      oddHTTP(header(":path", "/a/b?b=c"), header(":method", "GET")),
	"method twice":            oddHTTP(in(oddMethod, "POST"), in(oddMethod, "GET")),
}

// TestUnusualEncodings: what occurs twice is merged, or its last occurrence counts, in the lazy
// decoder as in the full decode.
func TestUnusualEncodings(t *testing.T) {
	read := 0
	for name, wire := range oddWires {
		t.Run(name, func(t *testing.T) {
			if holdsLazy(t, []byte(wire)) {
				read++
				holdsShuffled(t, rand.New(rand.NewPCG(1, 4)), []byte(wire))
			}
		})
	}
	if read < 40 {
		t.Errorf("only %d requests were read by the lazy decoder", read)
	}
}
