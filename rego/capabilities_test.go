package rego_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"understudy/rego"
)

func TestForbiddenBuiltins(t *testing.T) {
	for name, call := range map[string]string{
		"http.send":          `http.send({"method": "get", "url": "http://127.0.0.1"})`,
		"net.lookup_ip_addr": `net.lookup_ip_addr("localhost")`,
		"opa.runtime":        `opa.runtime()`,
	} {
		got := refusal(t, rego.Source{Modules: map[string]string{"a": "package a\nx := " + call}})
		if want := "undefined function " + name + ". A policy here reaches nothing outside of it: put what it needs into the policy's data"; !strings.HasPrefix(got[0].Message, want) {
			t.Errorf("%s: %q, want %q", name, got[0].Message, want)
		}
		// Nor may it come in as the replacement of another function.
		got = refusal(t, rego.Source{Modules: map[string]string{"a": "package a\nx if upper(\"a\") with upper as " + name}})
		if len(got) == 0 {
			t.Errorf("%s by with: no problem", name)
		}
	}
}

func TestAllowedBuiltins(t *testing.T) {
	for _, expression := range []string{
		`net.cidr_contains("10.0.0.0/8", "10.1.2.3")`,
		`glob.match("/a/*", ["/"], "/a/b")`,
		`regex.match("a+", "aaa")`,
		`time.now_ns() > 0`,
		`rand.intn("x", 10) < 10`,
		`count(uuid.rfc4122("x")) == 36`,
		`json.match_schema({"a": 1}, {"properties": {"a": {"type": "integer"}}})[0]`,
		`json.verify_schema({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"})[0]`,
		`json.verify_schema({"definitions": {"x": {"type": "string"}}, "$ref": "#/definitions/x"})[0]`,
		`count(io.jwt.decode("eyJhbGciOiJub25lIn0.e30.")) == 3`,
	} {
		p := compile(t, "package a\nx if "+expression, nil, "a/x")
		got, err := p.Eval(context.Background(), "a/x", rego.Input{}, time.Now())
		if err != nil || got.Value != true {
			t.Errorf("%s: %v, %v", expression, got, err)
		}
	}
}

func TestPrintIsDropped(t *testing.T) {
	stdout, stderr := os.Stdout, os.Stderr
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout, os.Stderr = file, file
	defer func() { os.Stdout, os.Stderr = stdout, stderr }()
	p := compile(t, "package a\nx if {\n\tprint(\"secret\")\n\ttrace(\"secret\")\n}", nil, "a/x")
	if got, err := p.Eval(context.Background(), "a/x", rego.Input{}, time.Now()); err != nil || got.Value != true {
		t.Errorf("Eval: %v, %v", got, err)
	}
	if content, err := os.ReadFile(file.Name()); err != nil || len(content) > 0 {
		t.Errorf("printed %q, %v", content, err)
	}
}

// TestSchemasFetchNothing evaluates and compiles schemas that refer to a server
// and to a file. The server counts; the file holds a schema that would match.
func TestSchemasFetchNothing(t *testing.T) {
	var hits atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		hits.Add(1)
		_, _ = w.Write([]byte(`{"type": "string"}`))
	}))
	defer server.Close()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "schema.json"), []byte(`{"type": "string"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	file := "file://" + dir + "/schema.json"
	for name, schema := range map[string]string{
		"http":                   fmt.Sprintf(`{"$ref": %q}`, server.URL),
		"http in a property":     fmt.Sprintf(`{"properties": {"a": {"$ref": "%s/x"}}}`, server.URL),
		"http by $id":            fmt.Sprintf(`{"$id": "%s/", "properties": {"a": {"$ref": "x"}}}`, server.URL),
		"http by $schema":        fmt.Sprintf(`{"$schema": %q}`, server.URL),
		"http with another host": `{"$ref": "http://localhost:1/x"}`,
		"file":                   fmt.Sprintf(`{"$ref": %q}`, file),
		"file in upper case":     fmt.Sprintf(`{"$ref": "FILE://%s/schema.json"}`, dir),
		"file in a property":     fmt.Sprintf(`{"properties": {"a": {"$ref": "%s#"}}}`, file),
		"file by $id":            fmt.Sprintf(`{"$id": "file://%s/", "properties": {"a": {"$ref": "schema.json"}}}`, dir),
		"file by id":             fmt.Sprintf(`{"id": "file://%s/", "properties": {"a": {"$ref": "schema.json"}}}`, dir),
		"file by $schema":        fmt.Sprintf(`{"$schema": %q, "properties": {"a": {"type": "string"}}}`, file),
	} {
		t.Run(name, func(t *testing.T) {
			module := "package a\nmatch := json.match_schema({\"a\": \"x\"}, input.schema)[0]\nverify := json.verify_schema(input.schema)[0]\n" +
				"text := json.match_schema({\"a\": \"x\"}, json.marshal(input.schema))[0]\nstatic := json.match_schema(\"x\", " + schema + ")[0]\n"
			p := compile(t, module, nil, "a/match", "a/verify", "a/text", "a/static")
			document := decode(t, `{"schema": `+schema+`}`).(map[string]any)
			input, err := rego.NewInput(document)
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{"a/match", "a/verify", "a/text", "a/static"} {
				got, err := p.Eval(context.Background(), path, input, time.Now())
				if err != nil {
					t.Errorf("%s: %v", path, err)
				}
				if strings.HasPrefix(name, "file") && !strings.HasSuffix(name, "$schema") && got.Defined && got.Value == true {
					t.Errorf("%s: the file was read", path)
				}
			}
		})
	}
	annotated := fmt.Sprintf("package a\n# METADATA\n# schemas:\n#   - input: {\"$ref\": %q}\nallow if input.x == 1\n", server.URL)
	compile(t, annotated, nil, "a/allow")
	if n := hits.Load(); n != 0 {
		t.Errorf("%d fetches, want none", n)
	}
}
