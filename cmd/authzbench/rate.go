package main

import (
	"fmt"
	"strconv"
	"strings"
)

// rate is requests per second, or a part of what a server takes in the closed loop. It
// is a flag value: 2000, or 50%. The zero value means no open loop.
type rate struct {
	perSecond float64
	// part is above 0 and below 1.
	part float64
}

// of returns the requests per second for a server with a capacity.
func (r rate) of(capacity float64) float64 {
	if r.part > 0 {
		return r.part * capacity
	}
	return r.perSecond
}

// String implements pflag.Value.
func (r *rate) String() string {
	if r.part > 0 {
		return strconv.FormatFloat(100*r.part, 'g', -1, 64) + "%"
	}
	return strconv.FormatFloat(r.perSecond, 'g', -1, 64)
}

// MarshalText writes a rate as the flag takes it.
func (r rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads it again.
func (r *rate) UnmarshalText(text []byte) error { return r.Set(string(text)) }

// Type implements pflag.Value.
func (r *rate) Type() string { return "rate" }

// Set implements pflag.Value. A part of 100 % is refused: at the whole capacity the
// queue only grows, and latencies would say how long the loop was.
func (r *rate) Set(text string) error {
	number, isPart := strings.CutSuffix(text, "%")
	value, err := strconv.ParseFloat(number, 64)
	switch {
	case err != nil || !(value >= 0 && value <= 1e6): // NaN is not
		return fmt.Errorf("%q is neither requests per second, such as 2000, nor a part of the capacity, such as 50%%", text)
	case isPart && value >= 100:
		return fmt.Errorf("%q leaves no room: an open loop at the whole capacity never catches up", text)
	case isPart:
		*r = rate{part: value / 100}
	default:
		*r = rate{perSecond: value}
	}
	return nil
}
