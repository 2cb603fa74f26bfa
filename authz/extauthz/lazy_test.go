package extauthz_test

import (
	"context"
	"testing"

	"google.golang.org/protobuf/proto"

	"understudy/authz/extauthz"
	"understudy/authz/extauthz/checktest"
	"understudy/authz/extauthz/servertest"
)

// TestUnknownSizeIsRead: a size that is not known is -1, which has the longest form that
// a number has on the wire.
func TestUnknownSizeIsRead(t *testing.T) {
	request := checktest.Istio()
	request.Attributes.Request.Http.Size = -1
	content, err := proto.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	if why := extauthz.Declined(content); why != "" {
		t.Fatalf("declined: %s", why)
	}
	holdsView(t, content, someReads(t))
	m := servertest.Measure(t, servertest.OnlyGET)
	for range 3 {
		if _, err := m.CheckWire(context.Background(), content); err != nil {
			t.Fatal(err)
		}
	}
	if hits := m.Hits(t); hits != 2 {
		t.Errorf("%d of 3 equal requests were hits of the decision cache, want 2", hits)
	}
}

// TestFullDecodesAreCounted: whoever wonders why a check costs so much finds the reason
// in a metric.
func TestFullDecodesAreCounted(t *testing.T) {
	const path, method = 4, 2
	for want, content := range map[string]string{
		"empty":           "",
		"wire":            "\xff",
		"utf8":            oddHTTP(in(path, "/\xff")),
		"unknown_field":   oddHTTP(in(99, "x")),
		"raw_headers":     oddHTTP(in(13, in(1, in(1, "a"), in(2, "b")))),
		"unusual_message": in(1, in(11, in(99, "x"))),
		"path_or_query":   oddHTTP(in(path, "/%zz")),
		"repeated_message": in(1,
			in(1, in(1, in(1, num(3, 1)))),
			in(1, in(1, in(1, num(3, 2))))),
	} {
		t.Run(want, func(t *testing.T) {
			m := servertest.Measure(t, servertest.OnlyGET)
			if _, err := m.CheckWire(context.Background(), []byte(content)); err != nil {
				t.Fatal(err)
			}
			if got := extauthz.Declined([]byte(content)); got != want {
				t.Errorf("declined for %q, want %q", got, want)
			}
			if n := m.Count(t, "understudy.full_decodes", "reason", want); n != 1 {
				t.Errorf("%d full decodes are counted for it, want 1", n)
			}
		})
	}
	whole := servertest.Measure(t, "package envoy.authz\n\nallow if count(input) > 3\n")
	if _, err := whole.CheckWire(context.Background(), []byte(oddHTTP(in(method, "GET")))); err != nil {
		t.Fatal(err)
	}
	if n := whole.Count(t, "understudy.full_decodes", "reason", "whole_input"); n != 1 {
		t.Errorf("a policy that reads its whole input: %d full decodes are counted, want 1", n)
	}
}
