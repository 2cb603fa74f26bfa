package rest

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"
)

// FuzzProbe: a body is the message of a probe, and nothing but that, or it is refused.
func FuzzProbe(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0})
	f.Add([]byte{0, 0, 0, 0, 3, 10, 1, 'a'})
	f.Add([]byte{1, 0, 0, 0, 3, 10, 1, 'a'})
	f.Add([]byte{0, 0, 0, 0, 3, 10, 1, 'a', 0, 0, 0, 0, 0})
	f.Add([]byte{0, 0, 0, 15, 0})
	f.Add([]byte{0, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, body []byte) {
		request, err := probeOf(body)
		if err != nil {
			return
		}
		again, err := proto.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		if body[0] != 0 {
			t.Errorf("%x is taken", body[:min(len(body), 100)])
		}
		sent, err := probeOf(append([]byte{0, 0, 0, byte(len(again) >> 8), byte(len(again))}, again...))
		if len(again) < 1<<16 && (err != nil || sent.Service != request.Service) {
			t.Errorf("%q is read as %q, %v", request.Service, sent.GetService(), err)
		}
	})
}

// TestProbesAreOneMessage that is not compressed.
func TestProbesAreOneMessage(t *testing.T) {
	for name, body := range map[string][]byte{
		"nothing":                 nil,
		"a part of the prefix":    {0, 0, 0},
		"a part of the message":   {0, 0, 0, 0, 3, 10, 1},
		"compressed":              {1, 0, 0, 0, 3, 10, 1, 'a'},
		"two messages":            bytes.Repeat([]byte{0, 0, 0, 0, 0}, 2),
		"a message of other type": {0, 0, 0, 0, 2, 8, 1},
		"no message":              {0, 0, 0, 0, 2, 255, 255},
	} {
		if request, err := probeOf(body); (err == nil) != (name == "a message of other type") {
			t.Errorf("%s: got %v, %v", name, request, err)
		}
	}
	if request, err := probeOf([]byte{0, 0, 0, 0, 3, 10, 1, 'a'}); err != nil || request.Service != "a" {
		t.Errorf("a probe: got %v, %v", request, err)
	}
}
