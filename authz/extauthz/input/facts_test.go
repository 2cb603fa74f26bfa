package input_test

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// fact is something that requests differ in.
type fact struct {
	// at is the message that says it (see field).
	at string
	// forms are what may stand there, in each of the ways in which it may be written. The first is nothing.
	forms []string
}

// has reports whether a field says the fact.
func (f fact) has(of field) bool { return f.at == of.at && slices.Contains(f.forms, of.bytes) }

// frame is a message of gRPC: a text in field 1.
const frame = "\x00\x00\x00\x00\x03\x0a\x01a"

// themes are facts that belong together: what says how a body is read.
var themes = [][]field{
	nil,
	{{httpMessage, in(4, "/grpc.health.v1.Health/Check")}, {httpMessage, header("content-type", "application/grpc")}, {httpMessage, in(11, frame)}},
	{{httpMessage, in(4, "/grpc.health.v1.Health/List")}, {httpMessage, header("content-type", "APPLICATION/GRPC")}, {httpMessage, in(12, frame)}},
	{{httpMessage, header("content-type", "application/json")}, {httpMessage, in(11, `{"a":1}`)}},
	{
		{httpMessage, header("content-type", "application/json")}, {httpMessage, header("content-length", "8")}, {httpMessage, in(12, `{"a":1}`)},
		{httpMessage, header("x-envoy-auth-partial-body", "false")},
	},
}

// messages are messages that are there, whatever they say.
var messages = []field{{sourceMessage, ""}, {destinationMessage, ""}, {httpMessage, ""}}

// marks are texts of the bytes by which a seal says that something is there, and how long it is.
var marks = []string{"\x01", "\x00", "\x01\x00", "\x01\x01"}

// facts are what requests differ in.
func facts() []fact {
	return slices.Concat(httpFacts(), bodyFacts(), peerFacts(sourceMessage), peerFacts(destinationMessage), attributeFacts())
}

// factsAt returns facts that one message says.
func factsAt(at string, forms ...[]string) (out []fact) {
	for _, f := range forms {
		out = append(out, fact{at, f})
	}
	return out
}

// httpFacts are what the HTTP message says, but for its body.
func httpFacts() []fact {
	return factsAt(httpMessage,
		append(textForms(4, "/", "/a/b", "/a%2fb", "/a", "/a/b?b=c", "/a/b?b=d", "/a?b=c", "?b=c", "//a", "/A", "/a/", "/%zz"),
			in(4, "/grpc.health.v1.Health/Check"), in(4, "/grpc.health.v1.Health/List"), header(":path", "/a/b"), header(":path", "/grpc.health.v1.Health/List")),
		append(textForms(2, "GET", "POST"), header(":method", "GET")),
		headerForms("x-a", slices.Concat([]string{"1", "2", "b"}, marks)...),
		headerForms("x-b", slices.Concat([]string{"1", "2"}, marks)...),
		headerForms("authorization", "a", "ab", "Bearer e30.e30.e30"),
		[]string{"", num(9, 3), num(9, 0), num(9, 1<<64-1), num(9, 3) + num(9, 4), "\x48\x83\x80\x80\x00", num(9, 1), num(9, 131)},
		textForms(1, slices.Concat([]string{"a"}, marks)...),
		textForms(5, slices.Concat([]string{"a"}, marks)...),
	)
}

// bodyFacts are the body and what says how it is read.
func bodyFacts() []fact {
	return factsAt(httpMessage,
		headerForms("content-type", "application/json", "text/plain", "application/grpc", "APPLICATION/GRPC", "application/x-www-form-urlencoded"),
		headerForms("content-length", "7", "0", "8", "x"),
		headerForms("x-envoy-auth-partial-body", "true", "false"),
		[]string{
			"", in(11, `{"a":1}`), in(12, `{"a":1}`), in(11, `{"a":2}`), in(11, "a=1"), in(11, frame), in(12, frame), in(11, "{"), in(11, `{"a":1}`) + in(12, "a=1"), in(11) + in(12),
			in(11, "\x01"), in(12, "\x01"), in(12, "\x00"),
		},
	)
}

// peerFacts are what is said of a peer.
func peerFacts(at string) []fact {
	return factsAt(at, addressForms(), mapForms(3), textForms(4, slices.Concat([]string{"a"}, marks, []string{"b"})...))
}

// attributeFacts are all others.
func attributeFacts() []fact {
	return append(
		factsAt(requestMessage, []string{
			"", in(1), in(1, num(1, 7)), in(1, num(2, 7)), in(1, num(1, 0)), in(1, num(1, 7), num(2, 7)), in(1, num(2, 7), num(1, 7)), in(1, num(2, 1<<32+7)), in(1, num(1, 1)),
		}),
		factsAt(attributesMessage,
			[]string{"", in(12), in(12, in(1, "b")), in(12, in(1)), in(12) + in(12, in(1, "b")), in(12, in(1, "\x01"))},
			[]string{"", in(4), in(4, in(2)), in(1), in(2)},
			metadataForms(11), metadataForms(13), mapForms(10),
		)...)
}

// headerForms are a header that is missing, empty, or there several times.
func headerForms(name string, values ...string) []string {
	out := []string{"", header(name, "")}
	for _, v := range values {
		out = append(out, header(name, v), header(name, values[0])+header(name, v), header(name, v)+header(name, values[0]))
	}
	return out
}

// textForms are a text that is missing, empty, or there twice.
func textForms(number protowire.Number, texts ...string) []string {
	out := []string{"", in(number)}
	for _, text := range texts {
		out = append(out, in(number, text), in(number, texts[0])+in(number, text))
	}
	return out
}

// mapForms are maps of texts.
func mapForms(number protowire.Number) []string {
	pair := func(name, value string) string { return in(number, in(1, name), in(2, value)) }
	out := []string{
		"", in(number), pair("a", "b"), pair("\x01", "\x01"), pair("", "") + pair("\x01", "\x01"), pair("a", ""), pair("a", "b") + pair("a", "c"), pair("a", "c") + pair("a", "b"),
		pair("a", "c"), pair("b", "a"), pair("", "ab"), pair("ab", ""), pair("a", "b") + pair("b", "c"), pair("b", "c") + pair("a", "b"), in(number, in(2, "b"), in(1, "a")),
		in(number, in(1, "a"), in(2, "c"), in(2, "b")),
	}
	for _, mark := range marks {
		out = append(out, pair(mark, mark), pair(mark, ""), pair("", "")+pair(mark, mark), pair("", mark))
	}
	return out
}

// addressForms are the address of a peer, which is a socket, a pipe or an internal one.
func addressForms() []string {
	return []string{
		"", in(1), in(1, in(1)), in(1, in(2)), in(1, in(3)), in(1, in(1, in(2, "/x"))), in(1, in(2, in(1, "/x"))), in(1, in(3, in(1, "/x"))), in(1, in(3, in(2, "/x"))),
		in(1, in(1, in(4, "/x"))), in(1, in(1, num(3, 1))), in(1, in(1, num(3, 0))), in(1, in(1, num(1, 1))), in(1, in(1, in(2, "/x"), num(3, 1))), in(1, in(2, in(1, "/x"), num(2, 1))),
		in(1, in(1, in(2, "/x"), num(6, 1))), in(1, in(1, num(3, 1), in(2, "/x"))), in(1, in(1, num(3, 129))), in(1, in(1, in(2, "\x01"))), in(1, in(2, in(1, "\x01"))), in(1, in(1, in(4))),
	}
}

// metadataForms are metadata, in which a value may be of each kind.
func metadataForms(number protowire.Number) []string {
	metadata := func(name string, fields ...string) string { return in(1, in(1, name), in(2, fields...)) }
	typed := func(name, url string) string { return in(2, in(1, name), in(2, in(1, url))) }
	value := func(name, value string) string { return in(1, in(1, name), in(2, value)) }
	text := in(3, "x")
	out := []string{
		"", in(number), in(number, metadata("a")), in(number, metadata("b")), in(number, metadata("a"), metadata("b")), in(number, metadata("b"), metadata("a")),
		in(number, metadata("a", value("b", text)), metadata("a")), in(number, metadata("a"), metadata("a", value("b", text))), in(number, in(1, in(1, "a"))), in(number, in(1)),
		in(number, typed("a", "t")), in(number, typed("a", "u")), in(number, typed("b", "t")), in(number, typed("a", "")), in(number, metadata("b"), typed("b", "t")),
		in(number, metadata("a", value("d", text))), in(number, metadata("a", value("d", in(3, "y")))), in(number, in(2, in(1, "a"), in(2, in(2, "t")))),
	}
	for _, v := range metadataValues(value, text) {
		out = append(out, in(number, metadata("a", value("b", v))), in(number, metadata("a", value("b", v), value("d", text))), in(number, metadata("a", value("d", text), value("b", v))))
	}
	return out
}

// metadataValues are values of each kind.
func metadataValues(field func(name, value string) string, text string) []string {
	list := func(values ...string) string {
		out := ""
		for _, v := range values {
			out += in(1, v)
		}
		return in(6, out)
	}
	return []string{
		"", num(1, 0), in(3), text, in(3, "\x01"), in(3, "\x00"), num(4, 0), num(4, 1), num(4, 129), "\x11\x00\x00\x00\x00\x00\x00\xf0\x3f", "\x11\x00\x00\x00\x00\x00\x00\x00\x40",
		list(), list(text), list(list()), list(list(), list()), list(list(list())), list(text, text), list(list(text), text), list(list(text, text)), list(num(1, 0)), list(""),
		in(5), in(5, field("b", text)), in(5, field("b", num(1, 0))), in(5, field("c", text)), in(5, field("d", text)), in(5, field("b", in(5))), in(5, field("b", text), field("c", text)),
		in(5, field("c", text), field("b", text)), in(5, field("b", in(3)), field("b", text)), in(5, field("b", text), field("b", in(3))), in(5, field("", text)), in(5, field("bb", in(3))),
	}
}
