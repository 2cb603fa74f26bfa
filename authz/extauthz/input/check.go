package input

import (
	"iter"
	"strings"

	"understudy/authz"
	"understudy/authz/extauthz/body"
	"understudy/rego"
)

// Check is a CheckRequest taken apart: what stands at each place of the document, as pieces
// of the wire. It is immutable and safe for concurrent use, and a [propagation.TextMapCarrier] of the
// request's headers.
type Check struct {
	// Arrays, not maps, since each field has a fixed slot from when the program
	// starts on: a look-up is an index, and nothing is allocated for it. Texts are
	// parts of the request's bytes, without a copy.
	texts    [maxTexts]string
	integers [maxIntegers]uint64
	maps     [maxMaps][]pair
	// present has a bit for each message that the request has.
	present uint32
	// full says that it comes from the full decode.
	full bool
	// bodies is how the body is read, and reading what that may cost. What is read from is
	// a copy with a reading of its own.
	bodies  *body.Parser
	reading *authz.ReadBudget
}

// header returns a header; its name is in lower case. Of several raw ones it is the first.
func (c *Check) header(name string) (string, bool) {
	if value, ok := lookup(at.headers.of(c), name); ok {
		return value, true
	}
	if raw := c.rawHeader(name); len(raw) > 0 {
		return raw[0], true
	}
	return "", false
}

// headers returns a header; its name is in lower case. Several raw ones are joined by
// commas, as Envoy joins those that are not raw.
func (c *Check) headers(name string) string {
	if value, ok := lookup(at.headers.of(c), name); ok {
		return value
	}
	return strings.Join(c.rawHeader(name), ",")
}

// rawHeader returns the raw headers of a name, which only a full decode has.
func (c *Check) rawHeader(name string) (values []string) {
	if !c.full {
		return nil
	}
	for h := range c.rawHeaders() {
		if strings.EqualFold(h.name, name) {
			values = append(values, h.value)
		}
	}
	return values
}

// rawHeaders are the headers that Envoy sends with encode_raw_headers: a list whose elements
// have the form of entries, with a raw value in place of the value, or after it. A full
// decode writes fields in the order of their numbers, and no empty ones.
func (c *Check) rawHeaders() iter.Seq[pair] {
	return entries{wire: at.headerMap.of(c).text, number: 1}.all()
}

// extension returns a value of the route's context_extensions; empty if there is none.
func (c *Check) extension(key string) string {
	value, _ := lookup(at.extensions.of(c), key)
	return value
}

// either returns a field of the request, or a pseudo-header if that is empty: who asks need not fill both.
func (c *Check) either(t *textPart, name string) string {
	value := t.of(c)
	if value == "" {
		value, _ = c.header(name)
	}
	return value
}

// target is the path with its query, as the client sent it.
func (c *Check) target() string { return c.either(at.path, ":path") }

// path is the target without its query.
func (c *Check) path() string {
	path, _, _ := strings.Cut(c.target(), "?")
	return path
}

// query is the query of the target.
func (c *Check) query() string {
	_, query, _ := strings.Cut(c.target(), "?")
	return query
}

// Get returns a header for a propagator.
func (c *Check) Get(name string) string {
	value, _ := c.header(strings.ToLower(name))
	return value
}

// Set implements propagation.TextMapCarrier and does nothing: a request is only read.
func (*Check) Set(string, string) {}

// Keys returns the names of all headers.
func (c *Check) Keys() []string {
	headers := at.headers.of(c)
	out := make([]string, len(headers))
	for i, h := range headers {
		out[i] = h.name
	}
	for h := range c.rawHeaders() {
		out = append(out, strings.ToLower(h.name))
	}
	return out
}

// input makes an input document. It works on a copy of the Check, as the live policy and experiments do
// this at the same time with readings of their own. The error is an *authz.BadRequest or that of the
// reading.
func (c *Check) input(reading *authz.ReadBudget, of *objectPart) (rego.Input, error) {
	r := *c
	r.reading = reading
	if c.full {
		// Of a request that the lazy decoder has read it is known that they parse.
		if err := c.parses(); err != nil {
			return rego.Input{}, err
		}
	}
	value, err := of.value(&r, nil)
	return value.Input(), err
}
