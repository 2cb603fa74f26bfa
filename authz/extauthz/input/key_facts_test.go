package input_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"understudy/rego"
)

// fact is something that requests differ in.
type fact struct {
	// at is the message that says it (see field).
	at string
	// forms are what may stand there, in each of the ways in which it may be written. The first is nothing.
	forms []string
	// places are the paths of the input document that depend on it.
	places []string
	// compared are some of these, compared with a text or two.
	compared []*rego.Reads
}

// has reports whether a field says the fact.
func (f fact) has(of field) bool { return f.at == of.at && slices.Contains(f.forms, of.bytes) }

// reads returns a read set that takes one to three of the places.
func (f fact) reads(r *rand.Rand) *rego.Reads {
	out := &rego.Reads{}
	for range 1 + r.IntN(3) {
		if len(f.compared) > 0 && r.IntN(3) == 0 {
			out = out.Union(f.compared[r.IntN(len(f.compared))])
			continue
		}
		out = out.Union(rego.ReadsAt(strings.Split(f.places[r.IntN(len(f.places))], ".")...))
	}
	return out
}

// below returns paths below one.
func below(path, names string) (out []string) {
	for _, name := range strings.Fields(names) {
		out = append(out, strings.TrimSuffix(path+"."+name, ".-"))
	}
	return out
}

const httpPlace = "attributes.request.http"

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

// marks are texts of the bytes by which a key says that something is there, and how long it is.
var marks = []string{"\x01", "\x00", "\x01\x00", "\x01\x01"}

// facts are what requests differ in.
func facts(t *testing.T) []fact {
	t.Helper()
	out := slices.Concat(httpFacts(), bodyFacts(), peerFacts(sourceMessage, "attributes.source"), peerFacts(destinationMessage, "attributes.destination"), attributeFacts())
	for i, f := range out {
		for _, place := range f.places {
			switch place[strings.LastIndex(place, ".")+1:] {
			case "path", "method", "host", "id", "principal", "service", "x-a", "x-b", "a", "sni":
				path := `input["` + strings.ReplaceAll(place, ".", `"]["`) + `"]`
				out[i].compared = append(out[i].compared, reads(t, path+` == "a"`), reads(t, `startswith(`+path+`, "/a"); endswith(`+path+`, "b")`))
			}
		}
	}
	return out
}

// httpFacts are what the HTTP message says, but for its body.
func httpFacts() []fact {
	paths := append(textForms(4, "/", "/a/b", "/a%2fb", "/a", "/a/b?b=c", "/a/b?b=d", "/a?b=c", "?b=c", "//a", "/A", "/a/", "/%zz"),
		in(4, "/grpc.health.v1.Health/Check"), in(4, "/grpc.health.v1.Health/List"), header(":path", "/a/b"), header(":path", "/grpc.health.v1.Health/List"))
	out := []fact{{at: httpMessage, forms: paths, places: append(below(httpPlace, "path - headers"), "parsed_path", "parsed_query", "parsed_body", "truncated_body")}}
	for _, f := range []struct {
		forms  []string
		places string
	}{
		{append(textForms(2, "GET", "POST"), header(":method", "GET")), "method headers -"},
		{headerForms("x-a", slices.Concat([]string{"1", "2", "b"}, marks)...), "headers headers.x-a headers.x-b -"},
		{headerForms("x-b", slices.Concat([]string{"1", "2"}, marks)...), "headers headers.x-a headers.x-b headers.x-c"},
		{headerForms("authorization", "a", "ab", "Bearer e30.e30.e30"), "headers headers.authorization"},
		{[]string{"", num(9, 3), num(9, 0), num(9, 1<<64-1), num(9, 3) + num(9, 4), "\x48\x83\x80\x80\x00", num(9, 1), num(9, 131)}, "size - protocol scheme"},
		{textForms(1, slices.Concat([]string{"a"}, marks)...), "id host -"},
		{textForms(5, slices.Concat([]string{"a"}, marks)...), "host id headers"},
	} {
		out = append(out, fact{at: httpMessage, forms: f.forms, places: below(httpPlace, f.places)})
	}
	return out
}

// bodyFacts are the body and what says how it is read.
func bodyFacts() (out []fact) {
	for _, forms := range [][]string{
		headerForms("content-type", "application/json", "text/plain", "application/grpc", "APPLICATION/GRPC", "application/x-www-form-urlencoded"),
		headerForms("content-length", "7", "0", "8", "x"),
		headerForms("x-envoy-auth-partial-body", "true", "false"),
		{
			"", in(11, `{"a":1}`), in(12, `{"a":1}`), in(11, `{"a":2}`), in(11, "a=1"), in(11, frame), in(12, frame), in(11, "{"), in(11, `{"a":1}`) + in(12, "a=1"), in(11) + in(12),
			in(11, "\x01"), in(12, "\x01"), in(12, "\x00"),
		},
	} {
		out = append(out, fact{at: httpMessage, forms: forms, places: append(below(httpPlace, "headers - body rawBody"), "parsed_body", "truncated_body", "parsed_body", "truncated_body")})
	}
	return out
}

// peerFacts are what is said of a peer.
func peerFacts(at, place string) []fact {
	return []fact{
		{at: at, forms: addressForms(), places: below(place, "- address address.socketAddress address.socketAddress.portValue address.pipe address.pipe.path address.envoyInternalAddress")},
		{at: at, forms: mapForms(3), places: below(place, "labels labels.a labels.b -")},
		{at: at, forms: textForms(4, slices.Concat([]string{"a"}, marks, []string{"b"})...), places: below(place, "principal service certificate labels -")},
	}
}

// attributeFacts are all others.
func attributeFacts() []fact {
	return []fact{
		{at: requestMessage, forms: []string{
			"", in(1), in(1, num(1, 7)), in(1, num(2, 7)), in(1, num(1, 0)), in(1, num(1, 7), num(2, 7)), in(1, num(2, 7), num(1, 7)), in(1, num(2, 1<<32+7)), in(1, num(1, 1)),
		}, places: below("attributes.request", "- time time.seconds time.nanos http.size")},
		{at: attributesMessage, forms: []string{"", in(12), in(12, in(1, "b")), in(12, in(1)), in(12) + in(12, in(1, "b")), in(12, in(1, "\x01"))}, places: below("attributes", "tlsSession tlsSession.sni")},
		{at: attributesMessage, forms: []string{"", in(4), in(4, in(2)), in(1), in(2)}, places: below("attributes", "- source destination request request.http source.service request.time")},
		{at: attributesMessage, forms: metadataForms(11), places: metadataPlaces("metadataContext")},
		{at: attributesMessage, forms: metadataForms(13), places: metadataPlaces("routeMetadataContext")},
		{at: attributesMessage, forms: mapForms(10), places: below("attributes", "contextExtensions contextExtensions.a contextExtensions.b")},
	}
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

// metadataPlaces are places of metadata.
func metadataPlaces(name string) []string {
	return below("attributes."+name, "- filterMetadata filterMetadata.a filterMetadata.a.b filterMetadata.a.b.b filterMetadata.a.d filterMetadata.b typedFilterMetadata typedFilterMetadata.a")
}
