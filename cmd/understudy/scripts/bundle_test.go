package scripts_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io/fs"
	"os"

	"github.com/rogpeppe/go-internal/testscript"
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
