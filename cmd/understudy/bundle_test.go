package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"

	adminpb "understudy/admin/v1"
	"understudy/rego"
)

// makeBundle is `bundle FILE FOLDER [PREFIX]`: it packs a folder as `opa build`
// does, with something before each name.
func makeBundle(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: bundle FILE FOLDER [PREFIX]")
	}
	prefix := "/"
	if len(args) == 3 {
		prefix = args[2]
	}
	file, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	packed := gzip.NewWriter(file)
	archive := tar.NewWriter(packed)
	folder := os.DirFS(ts.MkAbs(args[1]))
	ts.Check(fs.WalkDir(folder, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(folder, name)
		if err != nil {
			return err
		}
		header := &tar.Header{Name: prefix + name, Mode: 0o600, Size: int64(len(content))}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err = archive.Write(content)
		return err
	}))
	ts.Check(errors.Join(archive.Close(), packed.Close(), file.Close()))
}

// TestImportedYAML shows that what import writes is read back as it was, whatever
// is in it.
func TestImportedYAML(t *testing.T) {
	for _, text := range []string{
		"package a\n", "no end", "\tindented\n\t\tmore\n", "  spaces first\n", "space at the end \nof a line\n", "true", "1e3", "null",
		"\r\nwindows\r\n", "ünï\u2028code\n", "# no module\n\n\n", "a: b\n- c\n", "tab at the end\t\n\n", "# \"quoted\"\n'x'\n...\n---\n", "%TAG\n%YAML 1\n", "", "\n", "@", "\x7f\u0085\ufeff",
	} {
		d := &imported{from: "x", id: "web/next", rules: []string{"a/b"}, bundle: &rego.Bundle{
			Modules: map[string]string{"m.rego": text, text + ".rego": "x"},
			Data:    map[string]any{text: text, "list": []any{text, nil, true, 1.5}, "none": map[string]any{}},
		}}
		want, err := d.resource()
		if err != nil {
			t.Fatal(err)
		}
		written, err := d.yaml()
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		got, err := readResource(written, filepath.Join(t.TempDir(), "nowhere"))
		if err != nil {
			t.Fatalf("%q: %v in\n%s", text, err, written)
		}
		if diff := cmp.Diff(experiment(t, want), experiment(t, got), protocmp.Transform()); diff != "" {
			t.Errorf("%q, -want +got:\n%s\n%s", text, diff, written)
		}
	}
}

func experiment(t *testing.T, content []byte) *adminpb.PolicyExperiment {
	t.Helper()
	e := &adminpb.PolicyExperiment{}
	if err := protojson.Unmarshal(content, e); err != nil {
		t.Fatal(err)
	}
	return e
}
