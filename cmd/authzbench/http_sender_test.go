package main

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"testing"
)

// TestHTTPRequests reads what is sent through Envoy as a server does.
func TestHTTPRequests(t *testing.T) {
	s := newTestTraffic(t, zipf, rs256).newStream(1)
	methods := make(map[string]int)
	for range 200 {
		content := s.nextHTTP(nil)
		stream := bufio.NewReader(bytes.NewReader(content))
		r, err := http.ReadRequest(stream)
		if err != nil {
			t.Fatalf("%v\n%s", err, content)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || int64(len(body)) != r.ContentLength || (len(body) > 0) != (r.Method == http.MethodPost) {
			t.Errorf("%s with %d bytes, content-length %d: %v", r.Method, len(body), r.ContentLength, err)
		}
		if stream.Buffered() > 0 {
			t.Errorf("%d bytes follow the request", stream.Buffered())
		}
		if r.Host != host || len(r.Header.Get("Authorization")) < 700 || r.URL.Path == "" {
			t.Errorf("a request lacks something: %s", content)
		}
		methods[r.Method]++
	}
	if len(methods) < 3 {
		t.Errorf("the methods are %v", methods)
	}
}
