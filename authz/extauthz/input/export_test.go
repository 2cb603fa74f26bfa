package input

import (
	"time"

	"understudy/rego"
)

// Project returns what the lazy decoder makes of a request for a read set: the input
// document and its key. It reports false if it falls back to the full decode.
func (r *Reader) Project(wire []byte, reads *rego.Reads) (input rego.Input, key string, ok bool, err error) {
	c := &Check{}
	if readLazily(c, string(wire), &r.Bodies) != none {
		return rego.Input{}, "", false, nil
	}
	p := newPlan(reads)
	input, err = c.input(nil, p)
	at := rego.ValidFrom(time.Unix(1_700_000_000, 0))
	return input, string(p.key(c, nil, &at)), true, err
}

// ProjectDecoded returns the input document that the full decode makes for a read set.
func (r *Reader) ProjectDecoded(wire []byte, reads *rego.Reads) (rego.Input, error) {
	return r.decode(nil, wire, newPlan(reads))
}

// FallbackOf returns why a request is decoded in full; empty if it is not.
func FallbackOf(wire []byte) string {
	return readLazily(&Check{}, string(wire), nil).String()
}
