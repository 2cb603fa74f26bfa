package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// move edits all files of a repository, and returns how many it has written. Nothing is
// written if one of them cannot be read.
func move(root string, c change) (int, error) {
	names, err := files(root)
	if err != nil {
		return 0, err
	}
	edited := map[string][]byte{}
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return 0, err
		}
		after, err := c.edit(name, content)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		if !bytes.Equal(content, after) {
			edited[name] = after
		}
	}
	for name, content := range edited {
		if err := os.WriteFile(filepath.Join(root, name), content, 0o644); err != nil {
			return 0, err
		}
	}
	return len(edited), nil
}

// files returns the regular files of a repository, without what is built and what is git's.
func files(root string) (names []string, err error) {
	err = fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "dist", "node_modules"}, d.Name()):
			return fs.SkipDir
		case d.Type().IsRegular() && d.Name() != ".git": // the one of a work tree
			names = append(names, name)
		}
		return nil
	})
	return names, err
}

// edit returns a file with the new path. Kinds of files that hold none are as they were.
func (c change) edit(name string, content []byte) ([]byte, error) {
	switch {
	case filepath.Base(name) == "go.mod":
		return c.editModule(name, content)
	case filepath.Ext(name) == ".go":
		return c.editGo(name, content)
	case filepath.Ext(name) == ".proto":
		return c.editProto(content), nil
	}
	return content, nil
}
