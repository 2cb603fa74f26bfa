package input

import (
	"context"
	"time"

	"understudy/rego"
)

// Project returns what the lazy decoder makes of a request for a read set: the input
// document and its key. It reports false if it falls back to the full decode.
func (r *Reader) Project(wire []byte, reads *rego.Reads) (input rego.Input, key string, ok bool, err error) {
	c := &Check{}
	if c.readLazily(string(wire), &r.Bodies) != none {
		return rego.Input{}, "", false, nil
	}
	p := newPlan("", document, reads)
	input, err = c.input(nil, p)
	at := rego.ValidFrom(context.Background(), time.Unix(1_700_000_000, 0))
	return input, string(p.key(c, nil, &at)), true, err
}

// ProjectDecoded returns the input document that the full decode makes for a read set.
func (r *Reader) ProjectDecoded(wire []byte, reads *rego.Reads) (rego.Input, error) {
	c := &Check{}
	if err := c.decode(string(wire), &r.Bodies); err != nil {
		return rego.Input{}, err
	}
	return c.input(nil, newPlan("", document, reads))
}

// FallbackOf returns why a request is decoded in full; empty if it is not.
func FallbackOf(wire []byte) string {
	return string((&Check{}).readLazily(string(wire), nil))
}

// Projecting returns a function that makes the key and the input document of a request for
// a read set.
func Projecting(r *Reader, wire []byte, reads *rego.Reads) func() {
	c := &Check{}
	if c.readLazily(string(wire), &r.Bodies) != none {
		panic("the lazy decoder does not read it")
	}
	p, b := newPlan("", document, reads), make([]byte, 0, 4096)
	return func() {
		at := rego.ValidFrom(context.Background(), time.Unix(1_700_000_000, 0))
		b = p.key(c, b[:0], &at)
		if _, err := c.input(nil, p); err != nil {
			panic(err)
		}
	}
}
