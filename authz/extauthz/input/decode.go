package input

import (
	"strings"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/proto"

	"understudy/authz/extauthz/body"
)

// usualHeaders is how many headers a request has room for at once: browsers and meshes
// send fewer, and each time the list grows it is copied.
const usualHeaders = 32

// readLazily is the lazy decoder: it takes apart a request on the wire, into c. It says why
// it cannot read whatever is not usual: raw headers, a field in another wire type, text that
// is not UTF-8, a path or query that does not parse. On all else it agrees with the full
// decode, which a fuzz test shows.
func readLazily(c *Check, wire string, bodies *body.Parser) Fallback {
	c.bodies = bodies
	c.pairs[at.headers.slot] = make([]pair, 0, usualHeaders)
	if reason := document.readMessage(c, wire); reason != none {
		return reason
	}
	if c.present&attributes.part.(*objectPart).bit == 0 {
		return FallbackEmpty
	}
	if path, query, _ := strings.Cut(c.target(), "?"); !validEscapes(path) || !validForm(query) {
		return FallbackTarget
	}
	return none
}

// decoded is what the full decode keeps as messages: those that a policy reads as a
// whole. They become bytes again (opaques) only if a document is made, so that both
// ways share one code from there on.
type decoded struct{ messages [maxOpaques]proto.Message }

// read takes a decoded message apart, by the `fill` of each line of the table.
func (a *decodedRequest) read(message *authv3.CheckRequest, bodies *body.Parser) {
	c := &a.check
	c.bodies, c.decoded, c.present = bodies, &a.decoded, document.bit
	attributes.fill(c, message)
}

// opaques returns the messages on the wire, as an encoder writes them.
func (d *decoded) opaques() (out [maxOpaques]string, err error) {
	var ends [maxOpaques]int
	var wire []byte
	for i, m := range d.messages {
		if m != nil {
			if wire, err = (proto.MarshalOptions{}).MarshalAppend(wire, m); err != nil {
				return out, ErrNotACheck
			}
		}
		ends[i] = len(wire)
	}
	text, begin := string(wire), 0
	for i, end := range ends {
		out[i], begin = text[begin:end], end
	}
	return out, nil
}

// parses returns why the path or the query does not parse, nil if both do. The lazy
// decoder has found that out before; the full decode has not.
func (c *Check) parses() error {
	if _, err := decodePath(c.path()); err != nil {
		return err
	}
	_, err := parseQuery(c.query())
	return err
}
