package input_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"google.golang.org/protobuf/proto"

	"understudy/authz/diagnostics/metrictest"
	"understudy/authz/extauthz/checktest"
	"understudy/authz/extauthz/input"
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
	if why := input.FallbackOf(content); why != "" {
		t.Fatalf("decoded in full: %s", why)
	}
	holdsLazy(t, content)
	m := servertest.Measure(t, servertest.OnlyGET)
	for range 3 {
		if _, err := m.CheckForHTTP(context.Background(), request); err != nil {
			t.Fatal(err)
		}
	}
	if hits := m.Hits(t); hits != 2 {
		t.Errorf("%d of 3 equal requests were hits of the decision cache, want 2", hits)
	}
}

// counting returns a Reader that counts full decodes.
func counting(t *testing.T) (*input.Reader, metrictest.Metrics) {
	t.Helper()
	metrics := metrictest.New()
	decodes, err := input.NewDecodes(metrics.Provider)
	if err != nil {
		t.Fatal(err)
	}
	return &input.Reader{Decodes: decodes}, metrics
}

// TestFullDecodesAreCounted: anyone who wonders why a check costs so much finds the reason
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
			r, metrics := counting(t)
			_, _, _ = r.Read([]byte(content)) // some of them are no request
			if got := input.FallbackOf([]byte(content)); got != want {
				t.Errorf("decoded in full for %q, want %q", got, want)
			}
			if n := metrics.Count(t, "understudy.full_decodes", attribute.String("reason", want)); n != 1 {
				t.Errorf("%d full decodes are counted for it, want 1", n)
			}
		})
	}
	r, metrics := counting(t)
	request, _, err := r.Read([]byte(oddHTTP(in(method, "GET"))))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := request.Source(nil); err != nil {
		t.Fatal(err)
	}
	if n := metrics.Count(t, "understudy.full_decodes", attribute.String("reason", "whole_input")); n != 1 {
		t.Errorf("the whole input document: %d full decodes are counted, want 1", n)
	}
}
