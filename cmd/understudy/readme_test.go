package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var (
	commandLine = regexp.MustCompile("(?m)(?:^ *|^[$] |`|[|] )(?:bin/)?understudy ([a-z][a-z-]*)(.*)$")
	flagName    = regexp.MustCompile(`(?:^|[ \[])--([a-z][a-z-]+)`)
	serveFlag   = regexp.MustCompile("`--([a-z][a-z-]+)")
)

// foreignFlags are those of other programs that the documents mention.
var foreignFlags = map[string]bool{"json": true, "include": true, "build": true, "help": true}

// documents returns the paths of all documents but those of authzbench, whose flags are
// its own: cmd/docs asks it for them.
func documents(t *testing.T) (files []string) {
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != "../.." && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		if filepath.Ext(path) == ".md" && !strings.HasSuffix(filepath.Dir(path), "cmd/authzbench") {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) < 10 {
		t.Fatalf("found %q: %v", files, err)
	}
	return files
}

// TestDocumentsNameWhatIsThere reads every command line and every flag of the
// documents, also those within a sentence: a command that was renamed, or a flag that
// went away, is found here. Blocks of commands are run by cmd/docs.
func TestDocumentsNameWhatIsThere(t *testing.T) {
	t.Parallel()
	for _, file := range documents(t) {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		root := newRoot()
		root.InitDefaultCompletionCmd()
		text := strings.ReplaceAll(string(content), "\\\n", "")
		for _, m := range commandLine.FindAllStringSubmatch(text, -1) {
			command, _, err := root.Find([]string{m[1]})
			if err != nil || command == root {
				t.Errorf("%s: there is no command %s", file, m[1])
				continue
			}
			line, _, _ := strings.Cut(m[2], "`")
			line, _, _ = strings.Cut(line, "#")
			if below, _, err := command.Find(strings.Fields(line)); err == nil {
				command = below // such as apply, of iam
			}
			for _, f := range flagName.FindAllStringSubmatch(line, -1) {
				if command.Flags().Lookup(f[1]) == nil && !foreignFlags[f[1]] {
					t.Errorf("%s: %s has no flag --%s", file, m[1], f[1])
				}
			}
		}
		for _, m := range serveFlag.FindAllStringSubmatch(text, -1) {
			if !anyHas(root, m[1]) {
				t.Errorf("%s: no command has a flag --%s", file, m[1])
			}
		}
	}
}

// anyHas reports whether a command has the flag, or flags that begin so, as in
// --authz-tls-….
func anyHas(root *cobra.Command, name string) bool {
	found := foreignFlags[name]
	for _, c := range root.Commands() {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			found = found || f.Name == name || strings.HasSuffix(name, "-") && strings.HasPrefix(f.Name, name)
		})
	}
	return found
}

// TestHelpGroupsEveryFlag: a flag of serve that is in no group would stand first,
// under Flags.
func TestHelpGroupsEveryFlag(t *testing.T) {
	t.Parallel()
	serve, seen := newServe(), make(map[string]bool)
	for _, g := range serveFlags {
		if !g.Take(serve.Flags(), seen).HasFlags() {
			t.Errorf("the group %q has no flags", g.Title)
		}
	}
	serve.Flags().VisitAll(func(f *pflag.Flag) {
		if !seen[f.Name] {
			t.Errorf("--%s is in no group of serveFlags", f.Name)
		}
	})
}

// requirementList is a list of requirements, of two at least, in a help.
var requirementList = regexp.MustCompile(`default(?:,[a-z-]+[<>]?=[0-9a-z.%]+)+|requests>=[0-9]+(?:,[a-z-]+(?:[<>]?=[0-9a-z.%]+)?)+|--require[ =]'?[a-z][^' ]*=[^' ]*`)

// TestHelpShowsWholeLists: what a help shows is copied, so each list of requirements in it judges
// who is locked out, who is let in, what fails and what was not compared.
func TestHelpShowsWholeLists(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, c := range newRoot().Commands() {
		for _, gate := range requirementList.FindAllString(c.Long+c.Example+c.Flags().FlagUsages(), -1) {
			seen++
			if strings.Contains(gate, "default,") {
				continue // it has all of them
			}
			for _, term := range []string{"newly-denied=0", "newly-allowed=0", "failed=0", "dropped<=1%"} {
				if !strings.Contains(gate, term) {
					t.Errorf("the help of %s shows %s, without %s", c.Name(), gate, term)
				}
			}
		}
	}
	if seen < 5 {
		t.Errorf("the helps show %d lists of requirements, fewer than they have", seen)
	}
}
