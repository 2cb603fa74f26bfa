package input_test

import (
	"bytes"
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"understudy/authz/extauthz/checktest"
)

// FuzzParse feeds the parts of a request that are parsed.
func FuzzParse(f *testing.F) {
	f.Add("//admin/x?a=b", "application/json", "1", []byte(`{"a": 1e9999}`))
	f.Add("/a%2f%", "multipart/form-data; boundary=B", "", []byte("--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\none\r\n--B--\r\n"))
	f.Add("/grpc.health.v1.Health/Check", "application/grpc", "", []byte("\x00\x00\x00\x00\x03\x0a\x01a"))
	f.Add("?;", "application/x-www-form-urlencoded", "-1", []byte("a=%zz;"))
	f.Add("/", "application/x-www-form-urlencoded", "", []byte("a"))
	f.Add("/", "application/json", "", []byte(`[{},{"a":"\\\"["}]`))
	f.Fuzz(func(t *testing.T, path, contentType, length string, body []byte) {
		headers := checktest.RawHeaders("content-type", contentType)
		if length != "" {
			headers.Headers = append(headers.Headers, checktest.RawHeaders("content-length", length).Headers...)
		}
		request := checktest.HTTP(&authv3.AttributeContext_HttpRequest{Path: path, HeaderMap: headers, RawBody: body})
		got, err := document(t, request)
		if err != nil {
			if reason := err.Error(); len(path) > 5 && strings.Contains(reason, path) || len(body) > 5 && bytes.Contains([]byte(reason), body) {
				t.Errorf("the reason quotes the request: %s", reason)
			}
			return
		}
		parsed := got.(map[string]any)
		if segments := parsed["parsed_path"].([]any); len(segments) == 0 || len(segments) > 1 && segments[0] == "" {
			t.Errorf("parsed_path %q", segments)
		}
		if parsed["truncated_body"] == true && parsed["parsed_body"] != nil {
			t.Error("a truncated body was parsed")
		}
	})
}
