//go:build realenvoy

package e2e_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
)

// settings runs an Envoy with the shipped listener and, next to it, one for each setting
// of the filter that others may choose.
func settings(t *testing.T, s *sidecar) *envoy {
	t.Helper()
	c := shipped(t, "envoy.yaml").local(t, newUpstream(t)).move(t, "understudy", 9191, s.listening.Authz)
	for name, change := range map[string]func(listener, filter node){
		"text":    func(_, filter node) { object(t, filter, "with_request_body")["pack_as_bytes"] = false },
		"no body": func(_, filter node) { delete(filter, "with_request_body") },
		"strict": func(_, filter node) {
			filter["with_request_body"] = node{"max_request_bytes": 64, "allow_partial_message": false, "pack_as_bytes": true}
		},
		"raw headers": func(_, filter node) { filter["encode_raw_headers"] = true },
		"allowed headers": func(_, filter node) {
			filter["allowed_headers"] = node{"patterns": []any{node{"exact": "authorization"}, node{"prefix": "x-"}}}
		},
		"raw paths": func(listener, _ node) {
			m := manager(t, listener)
			m["normalize_path"], m["merge_slashes"], m["path_with_escaped_slashes_action"] = false, false, "KEEP_UNCHANGED"
		},
		"validated": func(_, filter node) { filter["validate_mutations"] = true },
	} {
		c.variant(t, name, func(l node) { change(l, extAuthz(t, l)) })
	}
	return newEnvoy(t, c)
}

// descriptors writes what `protoc --descriptor_set_out` would of gRPC's health service.
func descriptors(t *testing.T) string {
	t.Helper()
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{
		protodesc.ToFileDescriptorProto(grpc_health_v1.File_grpc_health_v1_health_proto),
	}}
	content, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "api.binpb")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// seen is the input of a policy that returns it to the client.
func seen(t *testing.T, a answered) node {
	t.Helper()
	var input node
	if err := json.Unmarshal([]byte(a.body), &input); err != nil || a.status != 403 {
		t.Fatalf("got %d %q: %v", a.status, a.body, err)
	}
	return input
}

// TestSettings asks Envoys whose filters are set otherwise, in one process.
func TestSettings(t *testing.T) {
	t.Parallel()
	s := newSidecar(t, "--grpc-descriptor-set", descriptors(t))
	s.apply(t, "web", "testdata/web.rego")
	e := settings(t, s)
	t.Run("bodies", func(t *testing.T) { bodies(t, e) })
	t.Run("headers", func(t *testing.T) { headers(t, e) })
	t.Run("paths", func(t *testing.T) { paths(t, e) })
	t.Run("edits", func(t *testing.T) { edits(t, e) })
}

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// called is the body of a unary gRPC call.
func called(t *testing.T, m proto.Message) []byte {
	t.Helper()
	message, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

// bodies: what a policy sees of them by setting of the filter.
func bodies(t *testing.T, e *envoy) {
	order := []byte(`{"amount": 5, "note": "` + strings.Repeat("n", 100) + `"}`)
	long := []byte(`{"amount": 5, "note": "` + strings.Repeat("n", 9000) + `"}`)
	parsed := node{"amount": 5.0, "note": strings.Repeat("n", 100)}
	for _, c := range []struct {
		setting, name, path string
		body                []byte
		fields              []string
		parsed              any
		truncated           bool
	}{
		{"ingress", "none", "/input", nil, nil, nil, false},
		{"ingress", "JSON", "/input", order, []string{"content-type: application/json"}, parsed, false},
		{"ingress", "partial", "/input", long, []string{"content-type: application/json"}, nil, true},
		{"ingress", "form", "/input", []byte("a=1&a=2&b=x+y"), []string{"content-type: application/x-www-form-urlencoded"},
			node{"a": []any{"1", "2"}, "b": []any{"x y"}}, false},
		{"text", "JSON", "/input", order, []string{"content-type: application/json"}, parsed, false},
		{"no body", "JSON", "/input", order, []string{"content-type: application/json"}, nil, false},
	} {
		t.Run(c.setting+"/"+c.name, func(t *testing.T) {
			input := seen(t, ask(t, e.at[c.setting], "POST", c.path, c.body, c.fields...))
			if diff := cmp.Diff(c.parsed, input["parsed_body"]); diff != "" {
				t.Errorf("parsed_body (-want +got):\n%s", diff)
			}
			if input["truncated_body"] != c.truncated {
				t.Errorf("truncated_body is %v", input["truncated_body"])
			}
			body, raw := at(input, "attributes", "request", "http", "body"), at(input, "attributes", "request", "http", "rawBody")
			if given := c.body != nil && c.setting != "no body"; (body != nil) != (given && c.setting == "text") || (raw != nil) != (given && c.setting != "text") {
				t.Errorf("body is %v, rawBody %v", body, raw)
			}
		})
	}
	t.Run("gRPC", func(t *testing.T) { grpcBody(t, e) })
	t.Run("decided by", func(t *testing.T) { decidedByBody(t, e, order, long) })
}

// decidedByBody: a policy decides by what is in a body, or by that it cannot read it.
func decidedByBody(t *testing.T, e *envoy, order, long []byte) {
	json := "content-type: application/json"
	for _, c := range []struct {
		setting string
		body    []byte
		field   string
		status  int
	}{
		{"ingress", []byte(`{"amount": 5}`), json, 200},
		{"ingress", []byte(`{"amount": 500}`), json, 403},
		{"ingress", long, json, 403}, // what is cut off is not believed
		{"ingress", []byte(`{"amount": 5`), json, 400},
		{"strict", []byte(`{"amount": 5}`), json, 200},
		{"strict", order, json, 413}, // Envoy's own answer
		{"no body", []byte(`{"amount": 5}`), json, 403},
		{"ingress", zipped(t, `{"amount": 5}`), json + "\r\ncontent-encoding: gzip", 400},
	} {
		a := ask(t, e.at[c.setting], "POST", "/orders", c.body, c.field)
		if a.status != c.status {
			t.Errorf("%s: %.20q is answered %d; want %d", c.setting, c.body, a.status, c.status)
		}
		if up := a.upstream(t); a.status == 200 && !bytes.Equal(up.Body, c.body) {
			t.Errorf("%s: the upstream got %q", c.setting, up.Body)
		}
	}
}

// grpcBody: a policy reads the message of a unary call, over HTTP/2.
func grpcBody(t *testing.T, e *envoy) {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	for service, status := range map[string]string{"shop": "", "unknown": "7"} {
		body := called(t, &grpc_health_v1.HealthCheckRequest{Service: service})
		request, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+e.at["ingress"]+"/grpc.health.v1.Health/Check", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/grpc")
		request.Header.Set("Te", "trailers")
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		// A denial of a gRPC call is 200 with PERMISSION_DENIED: that is how Envoy sends it.
		if response.StatusCode != 200 || response.Header.Get("Grpc-Status") != status || response.ProtoMajor != 2 {
			t.Errorf("%s: got %s %d, grpc-status %q", service, response.Proto, response.StatusCode, response.Header.Get("Grpc-Status"))
		}
		if reached := response.Header.Get("X-Upstream") != ""; reached != (service == "shop") {
			t.Errorf("%s: the upstream was reached: %v", service, reached)
		}
		_ = response.Body.Close()
	}
}

// headers: which a policy sees, and where.
func headers(t *testing.T, e *envoy) {
	fields := []string{"authorization: Bearer t", "x-user: a", "x-user: b", "accept: */*"}
	http := func(setting string) node {
		return object(t, seen(t, ask(t, e.at[setting], "GET", "/input/%61?q=1", nil, fields...)), "attributes", "request", "http")
	}
	if h := object(t, http("ingress"), "headers"); h["x-user"] != "a,b" || h["accept"] != "*/*" {
		t.Errorf("as shipped: %v", h)
	}
	raw := http("raw headers")
	if raw["headers"] != nil {
		t.Errorf("raw headers: headers is %v", raw["headers"])
	}
	var users []any
	for _, h := range at(raw, "headerMap", "headers").([]any) {
		if at(h, "key") == "x-user" {
			users = append(users, at(h, "rawValue"))
		}
	}
	if !cmp.Equal(users, []any{"YQ==", "Yg=="}) {
		t.Errorf("raw headers: x-user is %v", users)
	}
	allowed := object(t, http("allowed headers"), "headers")
	if allowed["authorization"] != "Bearer t" || allowed["x-user"] != "a,b" || allowed["accept"] != nil {
		t.Errorf("allowed headers: %v", allowed)
	}
}

// edits: a policy that sets what is no header is refused before Envoy could send it,
// whether Envoy validates edits or not.
func edits(t *testing.T, e *envoy) {
	for _, setting := range []string{"ingress", "validated"} {
		if a := ask(t, e.at[setting], "GET", "/invalid", nil); a.status != 403 || a.upstream(t) != nil {
			t.Errorf("%s: an invalid edit is answered %d", setting, a.status)
		}
		if a := ask(t, e.at[setting], "GET", "/edited/x?debug=1", nil); a.status != 200 || a.upstream(t).Header.Get("X-User") != "alice" {
			t.Errorf("%s: a valid edit is answered %d", setting, a.status)
		}
	}
}
