package extauthz

import (
	"strings"

	"understudy/authz"
)

// view is a CheckRequest that was read without decoding it: the fields that policies
// ask for, as pieces of the wire. It declines whatever is not plain (raw headers, a
// field in another wire type, text that is not UTF-8, a path or query that does not
// parse), so that the full decode decides what that means; on all else the two agree,
// and a fuzz target holds them to that. It is immutable and safe for concurrent use.
type view struct {
	source, destination peer
	hasRequest          bool
	time                message
	http                httpFields
	extensions          []pair
	metadata, route     message
	hasTLS              bool
	sni                 string
	// bodies is how the body is read, and reading what that may cost. A view that is read
	// from is a copy with a reading of its own.
	bodies  *bodies
	reading *authz.Reading
}

// peer is one end of the connection.
type peer struct {
	present     bool
	address     message
	service     string
	labels      []pair
	principal   string
	certificate string
}

// httpFields are those of the request that is checked.
type httpFields struct {
	present  bool
	id       string
	method   string
	headers  []pair
	path     string
	host     string
	scheme   string
	query    string
	fragment string
	size     int64
	protocol string
	body     string
	rawBody  string
}

// pair is an entry of a map.
type pair struct{ name, value string }

// message is a message that is decoded only if a policy reads it.
type message struct {
	present bool
	wire    string
}

// lookup returns the value of a name: that of its last entry, as in any proto map.
func lookup(pairs []pair, name string) (string, bool) {
	for i := len(pairs) - 1; i >= 0; i-- {
		if pairs[i].name == name {
			return pairs[i].value, true
		}
	}
	return "", false
}

// usualHeaders is how many headers a request has room for at once.
const usualHeaders = 32

// newView reads a CheckRequest. It returns nil, and why, if it declines.
func newView(wire string, bodies *bodies) (*view, declined) {
	v := &view{bodies: bodies}
	v.http.headers = make([]pair, 0, usualHeaders)
	if why := v.read(wire); why != readable {
		return nil, why
	}
	if why := v.parses(); why != readable {
		return nil, why
	}
	return v, readable
}

// The numbers of the fields in Envoy's attribute_context.proto.
const (
	checkAttributes = 1

	attributeSource      = 1
	attributeDestination = 2
	attributeRequest     = 4
	attributeExtensions  = 10
	attributeMetadata    = 11
	attributeTLS         = 12
	attributeRoute       = 13

	peerAddress     = 1
	peerService     = 2
	peerLabels      = 3
	peerPrincipal   = 4
	peerCertificate = 5

	requestTime = 1
	requestHTTP = 2

	httpID       = 1
	httpMethod   = 2
	httpHeaders  = 3
	httpPath     = 4
	httpHost     = 5
	httpScheme   = 6
	httpQuery    = 7
	httpFragment = 8
	httpSize     = 9
	httpProtocol = 10
	httpText     = 11
	httpRawBody  = 12

	httpRawHeaders = 13

	tlsSNI = 1

	entryName  = 1
	entryValue = 2
)

// Each of the functions below reads one message, as often as it occurs: occurrences
// are merged, and of a field the last one counts. They say why they decline.

func (v *view) read(wire string) declined {
	attributes := false
	why := fields(wire, func(number uint64, f field) declined {
		if number != checkAttributes || f.wireType != wireBytes {
			return declinedField
		}
		attributes = true
		return v.readAttributes(f.text)
	})
	if why == readable && !attributes {
		return declinedEmpty
	}
	return why
}

func (v *view) readAttributes(wire string) declined {
	return fields(wire, func(number uint64, f field) declined {
		if f.wireType != wireBytes {
			return declinedWire
		}
		switch number {
		case attributeSource:
			return v.source.read(f.text)
		case attributeDestination:
			return v.destination.read(f.text)
		case attributeRequest:
			v.hasRequest = true
			return v.readRequest(f.text)
		case attributeExtensions:
			return appendPair(&v.extensions, f)
		case attributeMetadata:
			return v.metadata.set(f, metadataShape)
		case attributeRoute:
			return v.route.set(f, metadataShape)
		case attributeTLS:
			v.hasTLS = true
			return v.readTLS(f.text)
		}
		return declinedField
	})
}

func (p *peer) read(wire string) declined {
	p.present = true
	return fields(wire, func(number uint64, f field) declined {
		switch number {
		case peerAddress:
			return p.address.set(f, addressShape)
		case peerService:
			return f.string(&p.service)
		case peerLabels:
			return appendPair(&p.labels, f)
		case peerPrincipal:
			return f.string(&p.principal)
		case peerCertificate:
			return f.string(&p.certificate)
		}
		return declinedField
	})
}

func (v *view) readRequest(wire string) declined {
	return fields(wire, func(number uint64, f field) declined {
		switch {
		case number == requestTime:
			return v.time.set(f, timeShape)
		case number == requestHTTP && f.wireType == wireBytes:
			return v.http.read(f.text)
		}
		return declinedField
	})
}

func (h *httpFields) read(wire string) declined {
	h.present = true
	return fields(wire, func(number uint64, f field) declined {
		switch number {
		case httpID:
			return f.string(&h.id)
		case httpMethod:
			return f.string(&h.method)
		case httpHeaders:
			return appendPair(&h.headers, f)
		case httpPath:
			return f.string(&h.path)
		case httpHost:
			return f.string(&h.host)
		case httpScheme:
			return f.string(&h.scheme)
		case httpQuery:
			return f.string(&h.query)
		case httpFragment:
			return f.string(&h.fragment)
		case httpSize:
			return f.integer(&h.size)
		case httpProtocol:
			return f.string(&h.protocol)
		case httpText:
			return f.string(&h.body)
		case httpRawBody:
			return f.bytes(&h.rawBody)
		case httpRawHeaders:
			return declinedRawHeaders
		}
		return declinedField
	})
}

func (v *view) readTLS(wire string) declined {
	return fields(wire, func(number uint64, f field) declined {
		if number == tlsSNI {
			return f.string(&v.sni)
		}
		return declinedField
	})
}

// appendPair reads an entry of a map. What is missing in it is empty.
func appendPair(to *[]pair, entry field) declined {
	if entry.wireType != wireBytes {
		return declinedWire
	}
	var p pair
	why := fields(entry.text, func(number uint64, f field) declined {
		switch number {
		case entryName:
			return f.string(&p.name)
		case entryValue:
			return f.string(&p.value)
		}
		return declinedField
	})
	*to = append(*to, p)
	return why
}

// set keeps a message. One that occurs twice would have to be merged: declined.
func (m *message) set(f field, s *shape) declined {
	switch {
	case m.present:
		return declinedRepeated
	case f.wireType != wireBytes || !s.plain(f.text, plainDepth):
		return declinedShape
	}
	*m = message{true, f.text}
	return readable
}

// parses declines a path or query that does not parse, as far as that can be told at a
// glance. The body is not looked at before a policy asks for it.
func (v *view) parses() declined {
	if path, query, _ := strings.Cut(v.target(), "?"); !validEscapes(path) || !validForm(query) {
		return declinedTarget
	}
	return readable
}

// header returns a header; its name is in lower case.
func (v *view) header(name string) (string, bool) { return lookup(v.http.headers, name) }

// extension returns a value of the route's context_extensions; empty if there is none.
func (v *view) extension(key string) string {
	value, _ := lookup(v.extensions, key)
	return value
}

// either returns a field of the request, or a pseudo-header if that is empty.
func (v *view) either(value, name string) string {
	if value == "" {
		value, _ = v.header(name)
	}
	return value
}

// target is the path with its query, as the client sent it.
func (v *view) target() string { return v.either(v.http.path, ":path") }

// path is the target without its query, which is what parsePath reads.
func (v *view) path() string {
	path, _, _ := strings.Cut(v.target(), "?")
	return path
}

// rawQuery is the query of the target, which is what parseQuery reads after its "?".
func (v *view) rawQuery() string {
	_, query, _ := strings.Cut(v.target(), "?")
	return query
}

// Get returns a header for a propagator.
func (v *view) Get(name string) string {
	value, _ := v.header(strings.ToLower(name))
	return value
}

// Set does nothing: a request is only read.
func (*view) Set(string, string) {}

// Keys returns the names of all headers.
func (v *view) Keys() []string {
	out := make([]string, len(v.http.headers))
	for i, h := range v.http.headers {
		out[i] = h.name
	}
	return out
}
