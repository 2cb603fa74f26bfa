// Modulepath gives the Go module of this repository another path: that of its home.
//
// A module is fetched by its path, so a module without a home cannot be fetched. The path is
// in each file that imports a package, in go.mod of all modules, and in the Go package of
// each proto. The command edits these and nothing else:
//
//	go -C cmd/modulepath run . ../.. example.com/you/understudy
//
// Generated code is then to be generated anew (`make module` does both): the path is in
// descriptors, which say how long each text is.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "modulepath:", err)
		os.Exit(1)
	}
}

// run is main with its arguments.
func run(args []string) error {
	if len(args) != 2 {
		return errors.New("it takes the root of the repository and the new path, as in make module MODULE=example.com/you/understudy")
	}
	root, path := args[0], args[1]
	if err := check(path); err != nil {
		return fmt.Errorf("the path %q: %w", path, err)
	}
	from, err := current(root)
	if err != nil {
		return err
	}
	edited, err := move(root, change{from: from, to: path})
	if err != nil {
		return err
	}
	fmt.Printf("%s is %s now, in %d files\n", from, path, edited)
	return nil
}

// check refuses a path that the go command could not fetch the module by.
func check(path string) error {
	if err := module.CheckPath(path); err != nil {
		var invalid *module.InvalidPathError
		if errors.As(err, &invalid) {
			err = invalid.Err
		}
		return fmt.Errorf("%w; it is where the repository is, without https://, such as example.com/you/understudy", err)
	}
	if _, major, _ := module.SplitPathVersion(path); major != "" {
		return fmt.Errorf("it ends in %s, which is for versions from v2 on; leave it out", major)
	}
	return nil
}

// current returns the path that the module in a folder has.
func current(folder string) (string, error) {
	content, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		return "", fmt.Errorf("reading the path of the module: %w", err)
	}
	path := modfile.ModulePath(content)
	if path == "" {
		return "", fmt.Errorf("%s has no path of a module", filepath.Join(folder, "go.mod"))
	}
	return path, nil
}

// change is a new path in the place of the module's path.
type change struct{ from, to string }

// path returns the new path of a package or module, and whether it is of this repository.
func (c change) path(old string) (string, bool) {
	rest, ours := strings.CutPrefix(old, c.from)
	if !ours || rest != "" && rest[0] != '/' {
		return old, false
	}
	return c.to + rest, true
}
