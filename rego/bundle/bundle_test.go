package bundle_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	opabundle "github.com/open-policy-agent/opa/v1/bundle"

	"understudy/rego"
	"understudy/rego/bundle"
)

// entry is a file of an archive; a link if it leads somewhere.
type entry struct{ name, text, link string }

// archive makes a bundle as `opa build` does.
func archive(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	w := tar.NewWriter(packed)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Mode: 0o600, Size: int64(len(e.text)), Typeflag: tar.TypeReg}
		if e.link != "" {
			header.Typeflag, header.Linkname = tar.TypeSymlink, e.link
		}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), packed.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// sorted turns files into entries.
func sorted(files map[string]string) []entry {
	var out []entry
	for _, name := range slices.Sorted(maps.Keys(files)) {
		out = append(out, entry{name: name, text: files[name]})
	}
	return out
}

// folder turns files into a folder.
func folder(files map[string]string) fstest.MapFS {
	out := make(fstest.MapFS)
	for name, text := range files {
		out[strings.TrimPrefix(name, "/")] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

const policyV1 = "package envoy.authz\n\ndefault allow := false\n\nallow if input.user in data.roles.admin\n"

func TestBundle(t *testing.T) {
	files := map[string]string{
		"/policy/authz.rego":      policyV1,
		"/policy/authz_test.rego": "package envoy.authz\n\ntest_ann if allow with input.user as \"ann\"\n",
		"/data.json":              `{"top": 1}`,
		"/roles/data.yaml":        "admin: [ann]\nbig: 12345678901234567890\n",
		"/roles/deep/data.yml":    "x: {y: true}\n",
		"/roles/notes.json":       `{"ignored": true}`,
		"/.manifest":              `{"revision": "r1", "roots": ["envoy", "roles", "top"], "rego_version": 1}`,
	}
	want := &bundle.Bundle{
		Modules: map[string]string{
			"policy/authz.rego":      files["/policy/authz.rego"],
			"policy/authz_test.rego": files["/policy/authz_test.rego"],
		},
		Data: map[string]any{"top": json.Number("1"), "roles": map[string]any{
			"admin": []any{"ann"}, "big": json.Number("12345678901234567890"),
			"deep": map[string]any{"x": map[string]any{"y": true}},
		}},
		Revision: "r1",
	}
	ctx := context.Background()
	got, err := bundle.Read(ctx, bytes.NewReader(archive(t, sorted(files)...)), bundle.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the archive, -want +got:\n%s", diff)
	}
	files["/.git/broken.rego"] = "hidden folders are passed over"
	if got, err = bundle.ReadFolder(ctx, folder(files), bundle.Options{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the folder, -want +got:\n%s", diff)
	}
	delete(want.Modules, "policy/authz_test.rego")
	if got, err = bundle.ReadFolder(ctx, folder(files), bundle.Options{WithoutTests: true}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("without tests, -want +got:\n%s", diff)
	}
}

func TestBundleRefused(t *testing.T) {
	v0 := "package a\n\np { true }\n"
	for name, tt := range map[string]struct {
		files map[string]string
		want  string
	}{
		"nothing":           {map[string]string{"README.md": "x"}, "neither a .rego file nor a data.json"},
		"wasm":              {map[string]string{"policy.wasm": "x", "a.rego": policyV1}, "policy.wasm: The policy is compiled to WebAssembly"},
		"plan":              {map[string]string{"plan.json": "{}", "a.rego": policyV1}, "plan.json: The policy is compiled to a plan"},
		"delta":             {map[string]string{"patch.json": "{}"}, "delta bundle"},
		"v0":                {map[string]string{"b.rego": policyV1, "a.rego": v0}, "a.rego: This is Rego v0"},
		"declared v0":       {map[string]string{"a.rego": v0, ".manifest": `{"rego_version": 0}`}, "a.rego: This is Rego v0"},
		"declared v2":       {map[string]string{"a.rego": policyV1, ".manifest": `{"rego_version": 2}`}, "Write `import rego.v2` into the module"},
		"declared nothing":  {map[string]string{"a.rego": policyV1, ".manifest": `{"rego_version": 7}`}, "unknown"},
		"neither":           {map[string]string{"a.rego": "package a\np if {"}, "does not compile"},
		"empty module":      {map[string]string{"a.rego": "# nothing\n"}, "The module is empty"},
		"roots, module":     {map[string]string{"a.rego": policyV1, ".manifest": `{"roots": ["other"]}`}, "do not permit"},
		"roots, data":       {map[string]string{"x/data.json": "{}", ".manifest": `{"roots": ["other"]}`}, "do not permit data"},
		"no manifest":       {map[string]string{"a.rego": policyV1, ".manifest": "no"}, ".manifest: It is no manifest"},
		"two manifests":     {map[string]string{"a.rego": policyV1, ".manifest": "{}", "b/.manifest": "{}"}, "second manifest"},
		"data conflict":     {map[string]string{"data.json": `{"a": 1}`, "a/data.json": `{"b": 2}`}, "not in order"},
		"data of no object": {map[string]string{"data.json": `[]`}, "root value must be object"},
		"broken data":       {map[string]string{"data.json": `{`}, "not in order"},
		"aliases":           {map[string]string{"data.yaml": aliases()}, "excessive aliasing"},
		"signed":            {map[string]string{"a.rego": policyV1, ".signatures.json": `{"signatures": ["x"]}`}, "--verification-key, or pass --skip-verify"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := bundle.ReadFolder(context.Background(), folder(tt.files), bundle.Options{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("ReadFolder: %v, want %q", err, tt.want)
			}
			_, again := bundle.Read(context.Background(), bytes.NewReader(archive(t, sorted(tt.files)...)), bundle.Options{})
			if fmt.Sprint(again) != fmt.Sprint(err) {
				t.Errorf("the archive says %v, the folder %v", again, err)
			}
		})
	}
}

// aliases is a YAML document of a few hundred bytes that would fill the memory.
func aliases() string {
	text := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 12 {
		text += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
	}
	return text
}

func TestHostileArchive(t *testing.T) {
	module := entry{name: "a.rego", text: policyV1}
	many := make([]entry, 10_001)
	for i := range many {
		many[i] = entry{name: fmt.Sprintf("%d", i)}
	}
	for name, tt := range map[string]struct {
		content []byte
		want    string
	}{
		"nothing":      {nil, "The bundle is empty"},
		"text":         {[]byte(strings.Repeat("no archive ", 100)), "it is no bundle, which is a tar.gz as `opa build` makes it"},
		"truncated":    {archive(t, module)[:60], "a tar.gz"},
		"no files":     {archive(t), "The bundle is empty"},
		"traversal":    {archive(t, entry{name: "../../a.rego", text: policyV1}), "leads out of the bundle"},
		"link":         {archive(t, entry{name: "a.rego", link: "/etc/passwd"}), "a.rego: It is a link"},
		"one name":     {archive(t, module, entry{name: "./a.rego", text: policyV1}), "two files of this name"},
		"too many":     {archive(t, many...), "more than 10000 files"},
		"a large file": {archive(t, module, entry{name: "x", text: strings.Repeat("\x00", 64<<20)}), "more than 64 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := bundle.Read(context.Background(), bytes.NewReader(tt.content), bundle.Options{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("ReadBundle: %v, want %q", err, tt.want)
			}
		})
	}
	// A link that means nothing is passed over.
	fine := archive(t, module, entry{name: "LICENSE", link: "../LICENSE"})
	if _, err := bundle.Read(context.Background(), bytes.NewReader(fine), bundle.Options{}); err != nil {
		t.Error(err)
	}
}

// TestFolderLinks reads a folder as Kubernetes mounts a ConfigMap, and one whose
// link leads out of it.
func TestFolderLinks(t *testing.T) {
	dir := t.TempDir()
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "..2026"), 0o700),
		os.WriteFile(filepath.Join(dir, "..2026", "a.rego"), []byte(policyV1), 0o600)); err != nil {
		t.Fatal(err)
	}
	link("..2026", "..data")
	link("..data/a.rego", "a.rego")
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	b, err := bundle.ReadFolder(context.Background(), root.FS(), bundle.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a.rego": policyV1}, b.Modules); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	link("/etc/hostname", "data.json")
	if _, err := bundle.ReadFolder(context.Background(), root.FS(), bundle.Options{}); err == nil {
		t.Error("a link that leads out of the folder was followed")
	}
}

func TestSignature(t *testing.T) {
	const secret = "the secret of this test"
	b := opabundle.Bundle{Data: map[string]any{"x": json.Number("1")}, Modules: []opabundle.ModuleFile{
		{URL: "/a.rego", Path: "/a.rego", Raw: []byte(policyV1)},
	}}
	if err := b.GenerateSignature(opabundle.NewSigningConfig(secret, "HS256", ""), "key", true); err != nil {
		t.Fatal(err)
	}
	signatures, err := json.Marshal(b.Signatures)
	if err != nil {
		t.Fatal(err)
	}
	signed := func() map[string]string {
		return map[string]string{"a.rego": policyV1, "data.json": `{"x": 1}`, ".signatures.json": string(signatures)}
	}
	good := bundle.Options{Key: &bundle.VerificationKey{Key: secret, Algorithm: "HS256"}}
	for name, tt := range map[string]struct {
		change  func(map[string]string)
		options bundle.Options
		want    string
	}{
		"as signed":   {func(map[string]string) {}, good, ""},
		"another key": {func(map[string]string) {}, bundle.Options{Key: &bundle.VerificationKey{Key: "other", Algorithm: "HS256"}}, "does not verify"},
		"changed":     {func(f map[string]string) { f["a.rego"] += "\nallow := true" }, good, "a.rego: It is not what was signed"},
		"added":       {func(f map[string]string) { f["b.rego"] = "package b" }, good, "b.rego: It is not what was signed"},
		"removed":     {func(f map[string]string) { delete(f, "data.json") }, good, "data.json: It was signed, but is not"},
		"unsigned":    {func(f map[string]string) { delete(f, ".signatures.json") }, good, "not signed"},
		"skipped":     {func(f map[string]string) { f["b.rego"] = "package b" }, bundle.Options{SkipVerify: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			files := signed()
			tt.change(files)
			_, err := bundle.ReadFolder(context.Background(), folder(files), tt.options)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("ReadFolder: %v, want %q", err, tt.want)
			}
		})
	}
}

// TestTranslation shows that modules of Rego v0 decide the same after they were
// translated: by OPA as v0, and by a Program.
func TestTranslation(t *testing.T) {
	v0 := map[string]string{
		"authz.rego": `package envoy.authz
import data.roles
import input.attributes.request.http as http
default allow = false
allow { http.method == "GET"; not blocked[input.user] }
allow { roles[input.user][_] == "admin" }
blocked[name] { name = data.blocked[_] }
reason = "blocked" { blocked[input.user] } else = "fine" { allow } else = "no" { true }
double(x) = y { y = x * 2 }
counts = {k: n | roles[k]; n = double(count(roles[k]))}
headers["x-user"] = input.user { allow }
`,
		"kept.rego": "package kept\n\nimport rego.v1\n\nok if input.user == \"ann\"\n",
	}
	data := `{"roles": {"ann": ["admin"], "bob": []}, "blocked": ["eve", "ann"]}`
	files := map[string]string{"data.json": data}
	maps.Copy(files, v0)
	ctx := context.Background()
	b, err := bundle.ReadFolder(ctx, folder(files), bundle.Options{V0Compatible: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"authz.rego"}, b.Translated); diff != "" {
		t.Errorf("translated, -want +got:\n%s", diff)
	}
	if b.Modules["kept.rego"] != v0["kept.rego"] {
		t.Error("a module that is v1 already was changed")
	}
	paths := []string{"envoy/authz", "kept"}
	program, err := rego.Compile(ctx, rego.Source{Modules: b.Modules, Data: b.Data, Paths: paths})
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"ann", "bob", "eve", "zoe"} {
		for _, method := range []string{"GET", "POST"} {
			document := map[string]any{"user": user, "attributes": map[string]any{
				"request": map[string]any{"http": map[string]any{"method": method}},
			}}
			input, err := rego.NewInput(document)
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range paths {
				got, err := program.Eval(ctx, path, input, time.Now())
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(evalV0(t, v0, data, path, document), got.Value); diff != "" {
					t.Errorf("%s %s %s, -v0 +translated:\n%s", user, method, path, diff)
				}
			}
		}
	}
}

func TestTranslationRefused(t *testing.T) {
	_, err := bundle.ReadFolder(context.Background(), folder(map[string]string{
		"a.rego": "package a\n\np { re_match(\"x\", input.y) }\n",
	}), bundle.Options{V0Compatible: true})
	var refused *rego.CompileError
	if !errors.As(err, &refused) || refused.Problems[0].File != "a.rego" || refused.Problems[0].Row != 3 {
		t.Errorf("a deprecated built-in: %v, want a problem at a.rego:3", err)
	}
}

func TestDecisions(t *testing.T) {
	got, err := rego.Decisions(context.Background(), map[string]string{
		"a.rego": `package mesh.authz
default allow := false
default quota.left := 3
result := {"allowed": allow}
main contains x if x := 1
allowed(x) if x
test_allow if allow
helper := 1`,
		"b.rego": "package system.log\ndefault mask := []\n",
		"c.rego": "package odd[\"a/b\"]\nallow := true\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"mesh/authz/allow", "mesh/authz/quota/left", "mesh/authz/result"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// FuzzReadBundle reads whatever bytes: there is no panic, and what is read compiles
// or is refused.
func FuzzReadBundle(f *testing.F) {
	f.Add(archive(f, entry{name: "/a.rego", text: policyV1}, entry{name: "/roles/data.yaml", text: "admin: [ann]"}))
	f.Add(archive(f, entry{name: "a.rego", text: "package a\np { true }"}, entry{name: ".manifest", text: `{"rego_version":0}`}))
	f.Add(archive(f, entry{name: "../x/data.json", text: "{}"}, entry{name: "data.json", link: "a"}))
	f.Fuzz(func(t *testing.T, content []byte) {
		ctx := context.Background()
		for _, options := range []bundle.Options{{}, {V0Compatible: true, SkipVerify: true}} {
			b, err := bundle.Read(ctx, bytes.NewReader(content), options)
			if err != nil {
				continue
			}
			_, _ = rego.Compile(ctx, rego.Source{Modules: b.Modules, Data: b.Data})
		}
	})
}

// FuzzReadFiles is FuzzReadBundle behind the archive, which random bytes seldom are.
func FuzzReadFiles(f *testing.F) {
	f.Add("a.rego", policyV1, ".manifest", `{"roots":["envoy"],"file_rego_versions":{"/a.rego":0}}`)
	f.Add("a.rego", "package a\np[x] { x = data.y[_] }", "y/data.yaml", "- 1\n- 2\n")
	f.Add("b/data.json", `{"a": 1e999}`, ".signatures.json", `{"signatures": ["a.b.c"]}`)
	f.Fuzz(func(t *testing.T, name, text, otherName, otherText string) {
		files := folder(map[string]string{name: text, otherName: otherText})
		ctx := context.Background()
		for _, options := range []bundle.Options{
			{SkipVerify: true, V0Compatible: true}, {Key: &bundle.VerificationKey{Key: "k", Algorithm: "HS256"}},
		} {
			b, err := bundle.ReadFolder(ctx, files, options)
			if err != nil {
				continue
			}
			if _, err := rego.Decisions(ctx, b.Modules); err != nil {
				t.Errorf("what was read does not parse: %v", err)
			}
		}
	})
}

// TestAPipeInAFolder is refused and not waited for.
func TestAPipeInAFolder(t *testing.T) {
	for _, name := range []string{"a.rego", "data.yaml"} {
		dir := t.TempDir()
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := bundle.ReadFolder(t.Context(), os.DirFS(dir), bundle.Options{})
		if err == nil || !strings.Contains(err.Error(), name+": It is no plain file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
